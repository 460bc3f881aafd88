// RUN: convir-opt %s -p '' -t llvm | filecheck %s
// Two loops over planes are one, whose iterations compute a function in turns.

// CHECK:       define internal void @"main_0.loops"
// CHECK:         icmp slt i64 {{%.+}}, 1024
// CHECK-NOT:     icmp slt i64 {{%.+}}, 32
// CHECK:         call ccc float @"vector.function.math.tanh"
// CHECK:         br label {{%.+}}, !llvm.loop [[LOOP:!.+]]
// CHECK:       [[LOOP]] = distinct !{[[LOOP]], [[RULE:!.+]], [[TURNS:!.+]]}
// CHECK:       [[RULE]] = !{!"llvm.loop.unroll.disable"}
// CHECK:       [[TURNS]] = !{!"llvm.loop.interleave.count", i32 4}
func.func @main(%x: tensor<2x4x32x32xf32>) -> tensor<2x4x32x32xf32> {
  %0 = math.tanh %x : tensor<2x4x32x32xf32>
  func.return %0 : tensor<2x4x32x32xf32>
}
