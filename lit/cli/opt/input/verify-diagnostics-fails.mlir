// What was not expected, and what was expected in vain, are errors: exit status 1.
// RUN: not convir-opt %s --split-input-file --verify-diagnostics 2>&1 | filecheck %s

// CHECK: verify-diagnostics-fails.mlir:5:{{[0-9]+}}: error: unexpected error: {{.*}}undeclared
func.func @unexpected() { return %undeclared : i32 }

// -----

// CHECK: verify-diagnostics-fails.mlir:10:1: error: expected warning "never" was not produced
// expected-warning {{never}}

// -----

// CHECK: verify-diagnostics-fails.mlir:16:{{[0-9]+}}: error: unexpected error: {{.*}}undeclared
// CHECK: verify-diagnostics-fails.mlir:16:1: error: expected error "other text" was not produced
func.func @text() { return %undeclared : i32 } // expected-error {{other text}}

// -----

// CHECK: verify-diagnostics-fails.mlir:21:{{[0-9]+}}: error: malformed regular expression
// expected-error-re {{a {{(}} b}}
