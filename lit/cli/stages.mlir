// RUN: rm -rf %t && convir-opt %s -p dce --compile-to=tensor --dump-stages-to=%t | filecheck %s --check-prefix=TENSOR
// RUN: filecheck %s --check-prefix=INPUT < %t/stages.0-input.mlir
// RUN: filecheck %s --check-prefix=TENSOR < %t/stages.1-tensor.mlir
// RUN: convir-opt %s -p dce --compile-to=input | filecheck %s --check-prefix=INPUT

func.func @f(%a: i32) -> i32 {
  %c = arith.constant 3 : i32
  return %a : i32
}

// INPUT: arith.constant 3
// TENSOR: func.func @f
// TENSOR-NEXT: func.return
