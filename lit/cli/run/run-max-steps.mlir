// Loops without an end are one error of the reference, before or while they run; --max-steps raises the limit.
// RUN: not convir-run %s --function counted --input=f32=1 2>&1 | filecheck %s --check-prefix=COUNTED
// RUN: not convir-run %s --function forever --input=f32=1 --max-steps=50 2>&1 | filecheck %s --check-prefix=FOREVER
// RUN: not convir-run %s --function nested --input=f32=1 --max-steps=8 2>&1 | filecheck %s --check-prefix=NESTED
// RUN: convir-run %s --function nested --input=f32=1 --max-steps=20 --check 2>&1 | filecheck %s --check-prefix=RAISED

// COUNTED: run-max-steps.mlir:{{[0-9]+}}:8: error: 'scf.for' op takes 9223372036854775807 steps, past the limit of 1000000 (convir-run --max-steps=N)
func.func @counted(%x: f32) -> f32 {
  %first = arith.constant 0 : index
  %end = arith.constant 9223372036854775807 : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %first to %end step %step iter_args(%a = %x) -> (f32) {
    %b = arith.addf %a, %x : f32
    scf.yield %b : f32
  }
  return %r : f32
}

// FOREVER: run-max-steps.mlir:{{[0-9]+}}:8: error: 'scf.while' op takes a step, past the limit of 50 (convir-run --max-steps=N)
func.func @forever(%x: f32) -> f32 {
  %true = arith.constant true
  %r = scf.while (%a = %x) : (f32) -> f32 {
    scf.condition(%true) %a : f32
  } do {
  ^bb0(%b: f32):
    scf.yield %b : f32
  }
  return %r : f32
}

// NESTED: run-max-steps.mlir:{{[0-9]+}}:10: error: 'scf.for' op takes 3 steps, past the limit of 8
// RAISED: 13.
// RAISED: check against the module as read: agrees
func.func @nested(%x: f32) -> f32 {
  %first = arith.constant 0 : index
  %end = arith.constant 4 : index
  %three = arith.constant 3 : index
  %step = arith.constant 1 : index
  %r = scf.for %i = %first to %end step %step iter_args(%a = %x) -> (f32) {
    %s = scf.for %j = %first to %three step %step iter_args(%b = %a) -> (f32) {
      %c = arith.addf %b, %x : f32
      scf.yield %c : f32
    }
    scf.yield %s : f32
  }
  return %r : f32
}

// TAPS: run-max-steps.mlir:{{[0-9]+}}:8: error: 'conv.fprop' op takes 3000000 steps, past the limit of 1000000
// RUN: not convir-run %s --function taps 2>&1 | filecheck %s --check-prefix=TAPS
func.func @taps(%x: tensor<1x1x3000000xf32>, %w: tensor<1x1x3000000xf32>, %y: tensor<1x1x1xf32>) -> tensor<1x1x1xf32> {
  %r = conv.fprop layouts(NCW, KCS, NCW) strides(1) padding(0) dilations(1)
      ins(%x, %w : tensor<1x1x3000000xf32>, tensor<1x1x3000000xf32>) outs(%y : tensor<1x1x1xf32>)
  return %r : tensor<1x1x1xf32>
}
