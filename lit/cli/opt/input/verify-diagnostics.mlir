// Parse errors, verification errors and their places, all expected: exit status 0.
// RUN: convir-opt %s --split-input-file --verify-diagnostics | filecheck %s

// CHECK: func.func @nothing_is_expected
func.func @nothing_is_expected() {
  return
}

// -----

func.func @parse_error() {
  // expected-error@+1 {{undeclared}}
  return %undeclared : i32
}

// -----

func.func @verify_error(%a: i32) -> i64 {
  return %a : i32  // expected-error {{func.return}}
}

// -----

func.func @below(%a: i32) -> i64 {
  // expected-error@below {{func.return}}
  return %a : i32
}

// -----

func.func @above(%a: i32) -> i64 {
  return %a : i32
  // expected-error@above {{func.return}}
}

// -----

func.func @before(%a: i32) -> i64 {
  return %a : i32
}
// expected-error@-2 {{func.return}}

// -----

func.func @expression(%a: i32) -> i64 {
  // expected-error-re@+1 {{'func.return' op {{[A-Za-z ]+}}}}
  return %a : i32
}
