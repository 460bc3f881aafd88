// A stock xdsl-opt works beside this package, with its own passes and dialects and with ours.
// RUN: xdsl-opt %s -p canonicalize | filecheck %s

func.func @f(%a: i32) -> i32 {
  %c = arith.constant 3 : i32
  return %a : i32
}

// CHECK: func.func @f
// CHECK-NEXT: func.return
