// RUN: convir-opt %s -p dce,canonicalize | filecheck %s
// RUN: convir-opt %s -p ' dce , canonicalize ' | filecheck %s
// RUN: convir-opt %s --pass-pipeline='builtin.module(func.func(dce),canonicalize)' | filecheck %s
// RUN: convir-opt %s --pass-pipeline='builtin.module(any(dce,builtin.module()))' | filecheck %s
// RUN: convir-opt %s -p '' | filecheck %s --check-prefix=UNCHANGED

func.func @dead(%a: i32) -> i32 {
  %c = arith.constant 3 : i32
  return %a : i32
}

// CHECK-LABEL: func.func @dead
// CHECK-NEXT:    func.return %a : i32

// UNCHANGED-LABEL: func.func @dead
// UNCHANGED-NEXT:    arith.constant 3
