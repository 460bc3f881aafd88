// RUN: convir-opt %s -p cse --split-input-file --allow-unregistered-dialect | filecheck %s

// CHECK-LABEL: func.func @same
// CHECK-NEXT: %0 = arith.addi %a, %b : i32
// CHECK-NEXT: func.return %0, %0
func.func @same(%a: i32, %b: i32) -> (i32, i32) {
  %0 = arith.addi %a, %b : i32
  %1 = arith.addi %b, %a : i32
  return %0, %1 : i32, i32
}

// CHECK-LABEL: func.func @same_regions
// CHECK: [[SUM:%.+]] = linalg.generic
// CHECK-NOT: linalg.generic
// CHECK: func.return [[SUM]], [[SUM]]
func.func @same_regions(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%b : tensor<4xf32>) {
  ^bb0(%in: f32, %out: f32):
    %2 = arith.addf %in, %out : f32
    linalg.yield %2 : f32
  } -> tensor<4xf32>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf32>) outs(%b : tensor<4xf32>) {
  ^bb0(%x: f32, %y: f32):
    %3 = arith.addf %y, %x : f32
    linalg.yield %3 : f32
  } -> tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// What is computed outside a region is not computed again inside it.

// CHECK-LABEL: func.func @inside_reads_outside
// CHECK-COUNT-1: arith.muli
// CHECK-NOT: arith.muli
func.func @inside_reads_outside(%c: i1, %a: i32) -> i32 {
  %0 = arith.muli %a, %a : i32
  %1 = scf.if %c -> (i32) {
    %2 = arith.muli %a, %a : i32
    scf.yield %2 : i32
  } else {
    scf.yield %0 : i32
  }
  return %1 : i32
}

// CHECK-LABEL: func.func @entry_dominates
// CHECK-COUNT-1: arith.muli
// CHECK-NOT: arith.muli
func.func @entry_dominates(%c: i1, %a: i32) -> i32 {
  %0 = arith.muli %a, %a : i32
  cf.cond_br %c, ^bb1, ^bb2(%0 : i32)
^bb1:
  %1 = arith.muli %a, %a : i32
  cf.br ^bb2(%1 : i32)
^bb2(%2: i32):
  return %2 : i32
}

// CHECK-LABEL: func.func @same_read
// CHECK-COUNT-1: memref.load
// CHECK-NOT: memref.load
func.func @same_read(%m: memref<4xf32>, %i: index) -> (f32, f32) {
  %0 = memref.load %m[%i] : memref<4xf32>
  %1 = memref.load %m[%i] : memref<4xf32>
  return %0, %1 : f32, f32
}

// -----

// Not rewritten because the type inside differs: the sums round differently.

// CHECK-LABEL: func.func @other_regions
// CHECK-COUNT-2: linalg.generic
func.func @other_regions(%a: tensor<4xf16>, %b: tensor<4xf16>) -> (tensor<4xf16>, tensor<4xf16>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf16>) outs(%b : tensor<4xf16>) {
  ^bb0(%in: f16, %out: f16):
    %2 = arith.extf %in : f16 to f32
    %3 = arith.addf %2, %2 : f32
    %4 = arith.truncf %3 : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<4xf16>
  %1 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>, affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} ins(%a : tensor<4xf16>) outs(%b : tensor<4xf16>) {
  ^bb0(%in: f16, %out: f16):
    %5 = arith.extf %in : f16 to f64
    %6 = arith.addf %5, %5 : f64
    %7 = arith.truncf %6 : f64 to f16
    linalg.yield %7 : f16
  } -> tensor<4xf16>
  return %0, %1 : tensor<4xf16>, tensor<4xf16>
}

// -----

// Not rewritten because -0.0 is not 0.0, and subtraction does not commute.

// CHECK-LABEL: func.func @other_values
// CHECK-COUNT-2: arith.constant
// CHECK-COUNT-2: arith.subf
func.func @other_values(%a: f32, %b: f32) -> (f32, f32, f32, f32) {
  %0 = arith.constant 0.0 : f32
  %1 = arith.constant -0.0 : f32
  %2 = arith.subf %a, %b : f32
  %3 = arith.subf %b, %a : f32
  return %0, %1, %2, %3 : f32, f32, f32, f32
}

// -----

// Not rewritten because neither branch dominates the other, nor what follows.

// CHECK-LABEL: func.func @branches
// CHECK-COUNT-3: arith.muli
func.func @branches(%c: i1, %a: i32) -> (i32, i32) {
  %0 = scf.if %c -> (i32) {
    %1 = arith.muli %a, %a : i32
    scf.yield %1 : i32
  } else {
    %2 = arith.muli %a, %a : i32
    scf.yield %2 : i32
  }
  %3 = arith.muli %a, %a : i32
  return %0, %3 : i32, i32
}

// -----

// Not rewritten because something may have been written in between.

// CHECK-LABEL: func.func @write_between
// CHECK-COUNT-4: memref.load
func.func @write_between(%m: memref<4xf32>, %i: index, %x: f32, %c: i1) -> (f32, f32, f32, f32) {
  %0 = memref.load %m[%i] : memref<4xf32>
  memref.store %x, %m[%i] : memref<4xf32>
  %1 = memref.load %m[%i] : memref<4xf32>
  "test.unknown"() : () -> ()
  %2 = memref.load %m[%i] : memref<4xf32>
  scf.if %c {
    memref.store %x, %m[%i] : memref<4xf32>
    scf.yield
  }
  %3 = memref.load %m[%i] : memref<4xf32>
  return %0, %1, %2, %3 : f32, f32, f32, f32
}

// -----

// Not rewritten because functions see nothing of each other.

// CHECK-COUNT-2: arith.constant
func.func @one() -> i32 {
  %0 = arith.constant 1 : i32
  return %0 : i32
}
func.func @other() -> i32 {
  %0 = arith.constant 1 : i32
  return %0 : i32
}

// -----

// What only dead operations read goes with them.

// CHECK-LABEL: func.func @dead_chain
// CHECK-NEXT: func.return %a
func.func @dead_chain(%a: i32) -> i32 {
  %0 = arith.constant 2 : i32
  %1 = arith.muli %a, %0 : i32
  %2 = arith.addi %1, %0 : i32
  return %a : i32
}
