// RUN: convir-opt %s -p canonicalize,dce --print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: convir-opt %s -p canonicalize,dce --print-ir-before-all -o %t 2>&1 | filecheck %s --check-prefix=BEFORE
// RUN: convir-opt %s -p canonicalize,dce --print-ir-after-all -o %t 2>&1 | filecheck %s --check-prefix=AFTER
// RUN: convir-opt %s -p canonicalize,dce --mlir-print-ir-after-all --mlir-print-ir-after-change -o %t 2>&1 | filecheck %s --check-prefix=CHANGE
// RUN: convir-opt %s -p canonicalize,dce,cse --print-ir-before=canonicalize,cse --print-ir-after dce -o %t 2>&1 | filecheck %s --check-prefix=NAMED
// RUN: not convir-opt %s -p dce --print-ir-after=dse 2>&1 | filecheck %s --check-prefix=UNKNOWN
// RUN: rm -rf %t.tree && convir-opt %s -p canonicalize,dce --print-ir-tree-dir=%t.tree -o %t
// RUN: filecheck %s --check-prefix=TREE < %t.tree/builtin_module_no-symbol-name/0_canonicalize.mlir
// RUN: filecheck %s --check-prefix=TREE < %t.tree/builtin_module_no-symbol-name/1_dce.mlir

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

// NAMED:       IR Dump Before canonicalize
// NAMED:       IR Dump After dce
// NAMED:       IR Dump Before cse
// NAMED-NOT:   IR Dump

// UNKNOWN: convir-opt: error: --print-ir-before, --print-ir-after: unknown pass 'dse'; did you mean 'dce'?

// TREE: IR Dump After
// TREE: builtin.module
// TREE-NOT: arith.constant
