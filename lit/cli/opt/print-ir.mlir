// RUN: convir-opt %s -p canonicalize,dce --print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: convir-opt %s -p canonicalize,dce --print-ir-before-all -o %t 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: convir-opt %s -p canonicalize,dce --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=AFTER

func.func @dead(%a: i32) -> i32 {
  %c = arith.constant 3 : i32
  return %a : i32
}

// CHANGE:      // -----// IR Dump After canonicalize //----- //
// CHANGE-NEXT: builtin.module {
// CHANGE-NOT:  arith.constant
// CHANGE-NOT:  IR Dump

// BEFORE:      IR Dump Before canonicalize
// BEFORE:      arith.constant
// BEFORE:      IR Dump Before dce
// BEFORE-NOT:  arith.constant

// AFTER:       IR Dump After canonicalize
// AFTER:       IR Dump After dce
