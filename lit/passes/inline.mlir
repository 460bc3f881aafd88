// RUN: convir-opt %s -p inline --split-input-file | filecheck %s
// RUN: convir-opt %s -p inline --split-input-file --remarks -o %t 2>&1 | filecheck %s --check-prefix=REMARK

// Callees first; what is returned as it came is the argument.
// CHECK-NOT: @pair
// CHECK-LABEL: func.func @twice(%a: tensor<4xf32>)
// CHECK-NEXT: %[[B:.*]] = arith.addf %a, %a
// CHECK-NEXT: %[[C:.*]] = arith.addf %[[B]], %[[B]]
// CHECK-NEXT: %[[D:.*]] = arith.mulf %[[C]], %a
// CHECK-NEXT: func.return %[[D]]
// REMARK: [inline] func.call rewritten: the body of @pair stands in its place
// REMARK: [inline] func.call rewritten: the body of @pair stands in its place
func.func private @pair(%a: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %b = arith.addf %a, %a : tensor<4xf32>
  return %b, %a : tensor<4xf32>, tensor<4xf32>
}
func.func @twice(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x:2 = func.call @pair(%a) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %y:2 = func.call @pair(%x#0) : (tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>)
  %z = arith.mulf %y#0, %x#1 : tensor<4xf32>
  return %z : tensor<4xf32>
}

// -----

// A call inside a region.
// CHECK-LABEL: func.func @under_a_condition
// CHECK-NOT: func.call
// CHECK: scf.if
// CHECK-NEXT: arith.negf
func.func private @negated(%a: f32) -> f32 {
  %b = arith.negf %a : f32
  return %b : f32
}
func.func @under_a_condition(%a: f32, %p: i1) -> f32 {
  %r = scf.if %p -> (f32) {
    %b = func.call @negated(%a) : (f32) -> f32
    scf.yield %b : f32
  } else {
    scf.yield %a : f32
  }
  return %r : f32
}

// -----

// Not inlined: recursion, and functions that end in it.
// CHECK-LABEL: func.func @calls_a_cycle
// CHECK-NEXT: func.call @f
// CHECK-LABEL: func.func private @f
// CHECK-NEXT: func.call @g
// CHECK-LABEL: func.func private @g
// CHECK-NEXT: func.call @f
// REMARK: func.call not rewritten: @f calls itself through @g
func.func @calls_a_cycle(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func private @f(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x = func.call @g(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
func.func private @g(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x = func.call @f(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}

// -----

// Not inlined: a declaration.
// CHECK-LABEL: func.func @calls_a_declaration
// CHECK-NEXT: func.call @elsewhere
// REMARK: func.call not rewritten: @elsewhere has no body
func.func private @elsewhere(tensor<4xf32>) -> tensor<4xf32>
func.func @calls_a_declaration(%a: tensor<4xf32>) -> tensor<4xf32> {
  %x = func.call @elsewhere(%a) : (tensor<4xf32>) -> tensor<4xf32>
  return %x : tensor<4xf32>
}
