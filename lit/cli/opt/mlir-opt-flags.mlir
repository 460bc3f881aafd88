// What mlir-opt calls its flags means the same here: one dash or two, with --mlir- or without,
// passes as flags of their own.

// RUN: convir-opt %s -pass-pipeline='builtin.module(canonicalize)' | filecheck %s --check-prefix=GONE
// RUN: convir-opt %s --canonicalize --cse | filecheck %s --check-prefix=GONE
// RUN: convir-opt %s -canonicalize -o - | filecheck %s --check-prefix=GONE
// GONE-NOT: arith.constant

// Options of a pass that is a flag; passes run in the order of the flags.
// RUN: convir-opt %s --dce '--convert-memref-to-ptr=lower-func=true' --cse --dump-pass-pipeline -o %t.mlir 2>&1 | filecheck %s --check-prefix=ORDER
// ORDER: builtin.module(dce,convert-memref-to-ptr{lower_func=true},cse)

// RUN: convir-opt %s --cse --mlir-timing -o %t.mlir 2>&1 | filecheck %s --check-prefix=TIMING
// TIMING: pass 1 cse
// TIMING: total

// RUN: convir-opt %s --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC
// GENERIC: "func.func"() <{

// RUN: convir-opt %s --mlir-print-debuginfo | filecheck %s --check-prefix=INFO
// INFO: arith.constant dense<{{.*}}> : tensor<3xi32> loc("{{.*}}mlir-opt-flags.mlir":{{[0-9]+}}:8)
// RUN: convir-opt %s -print-debuginfo | convir-opt --print-debuginfo | filecheck %s --check-prefix=INFO

// RUN: convir-opt %s --mlir-elide-elementsattrs-if-larger=2 | filecheck %s --check-prefix=ELIDED
// RUN: convir-opt %s --mlir-elide-elementsattrs-if-larger=2 | convir-opt | filecheck %s --check-prefix=ELIDED
// RUN: convir-opt %s --elide-constants-if-larger 3 | filecheck %s --check-prefix=KEPT
// ELIDED: arith.constant dense_resource<__elided__> : tensor<3xi32>
// KEPT: arith.constant dense<[1, 2, 3]> : tensor<3xi32>

// RUN: convir-opt %s --cse --verify-each=false --mlir-timing -o %t.mlir 2>&1 | filecheck %s --check-prefix=UNVERIFIED
// UNVERIFIED: parse
// UNVERIFIED-NEXT: verify
// UNVERIFIED-NEXT: pass 1 cse
// UNVERIFIED-NEXT: print

// RUN: convir-opt %s --cse --canonicalize --cse --mlir-pass-statistics -o %t.mlir 2>&1 | filecheck %s --check-prefix=STATISTICS
// STATISTICS: pass          runs  changed  ops added  rewritten  not rewritten
// STATISTICS: cse              2        1         -1          0              0
// STATISTICS: canonicalize     1        0         +0          0              0

// RUN: convir-opt --show-dialects | filecheck %s --check-prefix=DIALECTS
// DIALECTS: Available Dialects: {{.*}}arith, {{.*}}conv, {{.*}}linalg, {{.*}}tensor

// RUN: not convir-opt %s --cse -p dce 2>&1 | filecheck %s --check-prefix=BOTH
// BOTH: convir-opt: error: --cse: passes as flags cannot be combined with a pipeline

// RUN: not convir-opt %s --canonicalise 2>&1 | filecheck %s --check-prefix=NEAR
// NEAR: convir-opt: error: unknown option '--canonicalise'; did you mean '--canonicalize'?

func.func @f(%a: i32) -> i32 {
  %c = arith.constant dense<[1, 2, 3]> : tensor<3xi32>
  return %a : i32
}
