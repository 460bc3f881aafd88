// RUN: rm -rf %t && convir-opt %s --compile-to=rt --dump-stages-to=%t | filecheck %s --check-prefix=RT
// RUN: filecheck %s --check-prefix=INPUT < %t/stages.0-input.mlir
// RUN: filecheck %s --check-prefix=TENSOR < %t/stages.1-tensor.mlir
// RUN: filecheck %s --check-prefix=REGIONS < %t/stages.6-regions.mlir
// RUN: ls %t | filecheck %s --check-prefix=FILES
// Without a stage to stop at, every stage is written.
// RUN: rm -rf %t.all && convir-opt %s --dump-stages-to=%t.all | filecheck %s --check-prefix=RT
// RUN: filecheck %s --check-prefix=RT < %t.all/stages.10-planned.mlir
// RUN: convir-opt %s -p dce --compile-to=tensor | filecheck %s --check-prefix=TENSOR
// RUN: convir-opt %s -p dce --compile-to=input | filecheck %s --check-prefix=INPUT

func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> {
  %dead = arith.constant 3 : i32
  %b = arith.negf %a : tensor<4xf32>
  return %b : tensor<4xf32>
}

// INPUT: arith.constant 3
// TENSOR: func.func @main
// TENSOR-NEXT: arith.negf
// REGIONS: kernel.region
// RT: func.func @main(%{{.*}}: memref<4xf32>
// RT: rt.launch

// FILES:      stages.0-input.mlir
// FILES-NEXT: stages.1-tensor.mlir
// FILES-NEXT: stages.2-chunked.mlir
// FILES-NEXT: stages.3-chained.mlir
// FILES-NEXT: stages.4-rows.mlir
// FILES-NEXT: stages.5-fused.mlir
// FILES-NEXT: stages.6-regions.mlir
// FILES-NEXT: stages.7-selected.mlir
// FILES-NEXT: stages.8-outlined.mlir
// FILES-NEXT: stages.9-rt.mlir
// FILES-NOT:  planned
