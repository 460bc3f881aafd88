// RUN: convir-opt %s -p plan-memory --remarks 2>&1 | filecheck %s
// RUN: not convir-opt %s -p 'plan-memory{workspace-bytes=4095}' 2>&1 | filecheck %s --check-prefix=BUDGET
// RUN: convir-opt %s -p 'plan-memory{workspace-bytes=4096}' | filecheck %s --check-prefix=PLANNED
// All temporaries share one arena; two that live at once do not overlap.

// The plan is a remark: %a is dead when %c is first written, and lends it its place.
// CHECK:      plan-memory.mlir:{{[0-9]+}}:1: remark: [plan-memory] func.func rewritten: peak 4096 bytes of 6144 bytes; a: 2048 bytes at 0, calls 3 to 4; b: 2000 bytes at 2048, calls 4 to 5; c: 2048 bytes at 0, calls 5 to 6
// CHECK-NEXT: [plan-memory] func.func not rewritten: it has no temporaries
// BUDGET:     plan-memory.mlir:{{[0-9]+}}:1: error: @chain needs 4096 bytes of workspace, the budget is 4095

// PLANNED-LABEL: func.func @chain
// PLANNED-NEXT:  %[[ARENA:.*]] = rt.arena : memref<4096xi8>
// PLANNED-NEXT:  %a = rt.view %[[ARENA]][0] : memref<4096xi8> to memref<512xf32>
// PLANNED-NEXT:  %b = rt.view %[[ARENA]][2048] : memref<4096xi8> to memref<500xf32>
// PLANNED-NEXT:  %c = rt.view %[[ARENA]][0] : memref<4096xi8> to memref<512xf32>
func.func @chain(%x: memref<512xf32>, %y: memref<512xf32>) attributes {rt.program} {
  %a = memref.alloc() : memref<512xf32>
  %b = memref.alloc() : memref<500xf32>
  %c = memref.alloc() : memref<512xf32>
  rt.launch @k ins(%x : memref<512xf32>) outs(%a : memref<512xf32>)
  rt.launch @down ins(%a : memref<512xf32>) outs(%b : memref<500xf32>)
  rt.launch @up ins(%b : memref<500xf32>) outs(%c : memref<512xf32>)
  rt.launch @k ins(%c : memref<512xf32>) outs(%y : memref<512xf32>)
  return
}

// Nothing to plan: no arena.
// PLANNED-LABEL: func.func @no_temporaries
// PLANNED-NEXT:  rt.launch
func.func @no_temporaries(%x: memref<512xf32>, %y: memref<512xf32>) attributes {rt.program} {
  rt.launch @k ins(%x : memref<512xf32>) outs(%y : memref<512xf32>)
  return
}

// A function that is not a program is left alone.
// PLANNED-LABEL: func.func @no_program
// PLANNED-NEXT:  memref.alloc
func.func @no_program() -> memref<4xf32> {
  %a = memref.alloc() : memref<4xf32>
  return %a : memref<4xf32>
}

kernel.func @k(%x: tensor<512xf32>) -> tensor<512xf32> {
  %0 = arith.negf %x : tensor<512xf32>
  kernel.return %0 : tensor<512xf32>
}
kernel.func @down(%x: tensor<512xf32>) -> tensor<500xf32> {
  %0 = tensor.extract_slice %x[0] [500] [1] : tensor<512xf32> to tensor<500xf32>
  kernel.return %0 : tensor<500xf32>
}
kernel.func @up(%x: tensor<500xf32>) -> tensor<512xf32> {
  %zero = arith.constant dense<0.0> : tensor<512xf32>
  %0 = tensor.insert_slice %x into %zero[0] [500] [1] : tensor<500xf32> into tensor<512xf32>
  kernel.return %0 : tensor<512xf32>
}
