// RUN: convir-opt %s --allow-unregistered-dialect | filecheck %s
// RUN: not convir-opt %s 2>&1 | filecheck %s --check-prefix=ERROR

// ERROR: unregistered-dialect.mlir:6:{{[0-9]+}}: error: {{.*}}elsewhere
func.func @f(%a: i32) -> i32 {
  %b = "elsewhere.op"(%a) {x = 1 : i32} : (i32) -> i32
  return %b : i32
}

// CHECK: "elsewhere.op"(%a) {x = 1 : i32} : (i32) -> i32
