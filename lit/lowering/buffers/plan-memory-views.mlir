// RUN: convir-opt %s -p plan-memory | filecheck %s
// A view keeps the buffer alive that it is a view of.

// CHECK-LABEL: func.func @main
// CHECK-NEXT:  %[[ARENA:.*]] = rt.arena : memref<512xi8>
// CHECK-NEXT:  %a = rt.view %[[ARENA]][0] : memref<512xi8> to memref<64xf32>
// CHECK-NEXT:  %b = rt.view %[[ARENA]][256] : memref<512xi8> to memref<64xf32>
// CHECK-NEXT:  %v = rt.view %a[0] : memref<64xf32> to memref<8x8xf32>
func.func @main(%y: memref<64xf32>, %z: memref<64xf32>) attributes {rt.program, rt.outputs = 2 : i64} {
  %a = memref.alloc() : memref<64xf32>
  %b = memref.alloc() : memref<64xf32>
  %v = rt.view %a[0] : memref<64xf32> to memref<8x8xf32>
  rt.fill 1.0 : f32 into %a : memref<64xf32>
  rt.fill 2.0 : f32 into %b : memref<64xf32>
  rt.copy %b to %y : memref<64xf32> to memref<64xf32>
  rt.copy %v to %z : memref<8x8xf32> to memref<64xf32>
  return
}
