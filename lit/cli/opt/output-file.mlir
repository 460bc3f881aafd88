// The output file appears when all went well, and nothing is left behind when not.
// RUN: rm -rf %t && mkdir %t
// RUN: convir-opt %s -o %t/good.mlir
// RUN: filecheck %s < %t/good.mlir
// RUN: echo "}" | not convir-opt -o %t/never.mlir
// RUN: ls -A %t | filecheck %s --check-prefix=FILES --match-full-lines
// RUN: not convir-opt %s -o %t/missing/out.mlir 2>&1 | filecheck %s --check-prefix=MISSING

// FILES:     good.mlir
// FILES-NOT: {{.}}
// CHECK: func.func @f
// MISSING: convir-opt: error: {{.*}}out.mlir: No such directory
func.func @f() {
  return
}
