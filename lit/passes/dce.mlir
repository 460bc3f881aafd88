// RUN: convir-opt %s -p dce --split-input-file --allow-unregistered-dialect | filecheck %s

// CHECK-LABEL: func.func @unused
// CHECK-NEXT: func.return %a
func.func @unused(%a: tensor<4xf32>) -> tensor<4xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.empty() : tensor<4xf32>
  %1 = linalg.fill ins(%zero : f32) outs(%0 : tensor<4xf32>) -> tensor<4xf32>
  %2 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%1 : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %3 = arith.addf %in, %out : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %a : tensor<4xf32>
}

// CHECK-LABEL: func.func @unused_in_a_region
// CHECK: linalg.generic
// CHECK-NEXT: ^bb0(%in: f32, %out: f32):
// CHECK-NEXT: linalg.yield %in : f32
func.func @unused_in_a_region(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%b : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %1 = arith.addf %in, %out : f32
    linalg.yield %in : f32
  } -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @unreachable
// CHECK-NEXT: cf.br [[END:\^.+]]
// CHECK-NEXT: [[END]]:
// CHECK-NEXT: func.return
// CHECK-NEXT: }
func.func @unreachable(%a: i32) {
  cf.br ^bb2
^bb1:
  %0 = arith.addi %a, %1 : i32
  %1 = arith.addi %a, %0 : i32
  cf.br ^bb2
^bb2:
  return
}

// -----

// Not removed because they write, or may do anything.

// CHECK-LABEL: func.func @effects
// CHECK-NEXT: memref.store
// CHECK-NEXT: linalg.fill
// CHECK-NEXT: "test.unknown"
func.func @effects(%m: memref<4xf32>, %i: index, %x: f32) {
  memref.store %x, %m[%i] : memref<4xf32>
  linalg.fill ins(%x : f32) outs(%m : memref<4xf32>)
  %0 = "test.unknown"() : () -> i32
  return
}

// -----

// Not removed: functions that nobody calls, and arguments of blocks that nobody reads.

// CHECK: func.func private @uncalled
// CHECK: ^bb1(%unread: i32):
func.func private @uncalled(%a: i32, %b: i32) -> i32 {
  cf.br ^bb1(%b : i32)
^bb1(%unread: i32):
  return %a : i32
}
