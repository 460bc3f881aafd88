// RUN: convir-opt %s -p canonicalize --split-input-file | filecheck %s

// Integers wrap, divisions round towards zero, an index has 64 bits.

// CHECK-LABEL: func.func @integer_constants
// CHECK-DAG: [[SUM:%.+]] = arith.constant -2 : i8
// CHECK-DAG: [[QUOTIENT:%.+]] = arith.constant -3 : i8
// CHECK-DAG: [[REST:%.+]] = arith.constant -1 : i8
// CHECK-DAG: [[SHIFTED:%.+]] = arith.constant 62 : i8
// CHECK-DAG: [[INDEX:%.+]] = arith.constant -9223372036854775808 : index
// CHECK: func.return [[SUM]], [[QUOTIENT]], [[REST]], [[SHIFTED]], [[INDEX]]
func.func @integer_constants() -> (i8, i8, i8, i8, index) {
  %c127 = arith.constant 127 : i8
  %c_7 = arith.constant -7 : i8
  %c2 = arith.constant 2 : i8
  %max = arith.constant 9223372036854775807 : index
  %one = arith.constant 1 : index
  %0 = arith.addi %c127, %c127 : i8
  %1 = arith.divsi %c_7, %c2 : i8
  %2 = arith.remsi %c_7, %c2 : i8
  %3 = arith.shrui %c_7, %c2 : i8
  %4 = arith.addi %max, %one : index
  return %0, %1, %2, %3, %4 : i8, i8, i8, i8, index
}

// CHECK-LABEL: func.func @single_bit
// CHECK-DAG: [[TRUE:%.+]] = arith.constant true
// CHECK-DAG: [[MINUS:%.+]] = arith.constant -1 : i8
// CHECK: func.return [[TRUE]], [[MINUS]]
func.func @single_bit() -> (i1, i8) {
  %true = arith.constant true
  %false = arith.constant false
  %0 = arith.cmpi slt, %true, %false : i1
  %1 = arith.extsi %true : i1 to i8
  return %0, %1 : i1, i8
}

// Each operation rounds to its own type: 2049 is not a number of f16.

// CHECK-LABEL: func.func @float_constants
// CHECK-DAG: [[HALF:%.+]] = arith.constant 2.048000e+03 : f16
// CHECK-DAG: [[SINGLE:%.+]] = arith.constant 2.049000e+03 : f32
// CHECK: func.return [[HALF]], [[SINGLE]]
func.func @float_constants() -> (f16, f32) {
  %0 = arith.constant 2048.0 : f16
  %1 = arith.constant 1.0 : f16
  %2 = arith.addf %0, %1 : f16
  %3 = arith.extf %0 : f16 to f32
  %4 = arith.extf %1 : f16 to f32
  %5 = arith.addf %3, %4 : f32
  return %2, %5 : f16, f32
}

// CHECK-LABEL: func.func @integer_identities
// CHECK-NEXT: [[C0:%.+]] = arith.constant 0 : i32
// CHECK-NEXT: func.return %x, %x, %x, %x, %x, [[C0]], [[C0]], [[C0]]
func.func @integer_identities(%x: i32) -> (i32, i32, i32, i32, i32, i32, i32, i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c_1 = arith.constant -1 : i32
  %0 = arith.addi %c0, %x : i32
  %1 = arith.muli %x, %c1 : i32
  %2 = arith.andi %x, %c_1 : i32
  %3 = arith.divsi %x, %c1 : i32
  %4 = arith.maxsi %x, %x : i32
  %5 = arith.subi %x, %x : i32
  %6 = arith.muli %x, %c0 : i32
  %7 = arith.remui %x, %c1 : i32
  return %0, %1, %2, %3, %4, %5, %6, %7 : i32, i32, i32, i32, i32, i32, i32, i32
}

// CHECK-LABEL: func.func @combined
// CHECK-DAG: [[C6:%.+]] = arith.constant 6 : index
// CHECK-DAG: [[C_2:%.+]] = arith.constant -2 : index
// CHECK-DAG: [[SUM:%.+]] = arith.addi %x, [[C_2]] : index
// CHECK-DAG: [[PRODUCT:%.+]] = arith.muli %x, [[C6]] : index
// CHECK: func.return [[SUM]], [[PRODUCT]]
func.func @combined(%x: index) -> (index, index) {
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %0 = arith.addi %c1, %x : index
  %1 = arith.subi %0, %c3 : index
  %2 = arith.muli %x, %c2 : index
  %3 = arith.muli %2, %c3 : index
  return %1, %3 : index, index
}

// CHECK-LABEL: func.func @float_identities
// CHECK: func.return %x, %x, %x, %x, %x
func.func @float_identities(%x: f32) -> (f32, f32, f32, f32, f32) {
  %minus_zero = arith.constant -0.0 : f32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %0 = arith.addf %minus_zero, %x : f32
  %1 = arith.subf %x, %zero : f32
  %2 = arith.mulf %one, %x : f32
  %3 = arith.divf %x, %one : f32
  %4 = arith.negf %x : f32
  %5 = arith.negf %4 : f32
  return %0, %1, %2, %3, %5 : f32, f32, f32, f32, f32
}

// CHECK-LABEL: func.func @reassociated
// CHECK: [[C6:%.+]] = arith.constant 6.000000e+00 : f32
// CHECK: [[PRODUCT:%.+]] = arith.mulf %x, [[C6]] fastmath<reassoc> : f32
// CHECK: func.return [[PRODUCT]]
func.func @reassociated(%x: f32) -> f32 {
  %c2 = arith.constant 2.0 : f32
  %c3 = arith.constant 3.0 : f32
  %0 = arith.mulf %c2, %x fastmath<reassoc> : f32
  %1 = arith.mulf %0, %c3 fastmath<nnan,reassoc> : f32
  return %1 : f32
}

// CHECK-LABEL: func.func @casts
// CHECK-DAG: [[WIDE:%.+]] = arith.extf %x : f16 to f64
// CHECK-DAG: [[SIGNED:%.+]] = arith.extsi %i : i8 to i32
// CHECK: func.return %x, [[WIDE]], [[SIGNED]], %i
func.func @casts(%x: f16, %i: i8) -> (f16, f64, i32, i8) {
  %0 = arith.extf %x : f16 to f32
  %1 = arith.truncf %0 : f32 to f16
  %2 = arith.extf %0 : f32 to f64
  %3 = arith.extsi %i : i8 to i16
  %4 = arith.extsi %3 : i16 to i32
  %5 = arith.index_cast %i : i8 to index
  %6 = arith.index_cast %5 : index to i8
  return %1, %2, %4, %6 : f16, f64, i32, i8
}

// -----

// Not rewritten because truncf rounds.

// CHECK-LABEL: func.func @rounds
// CHECK-NEXT: arith.truncf
// CHECK-NEXT: arith.extf
func.func @rounds(%x: f32) -> f32 {
  %0 = arith.truncf %x : f32 to f16
  %1 = arith.extf %0 : f16 to f32
  return %1 : f32
}

// -----

// Not rewritten because one of the two is not to be reassociated.

// CHECK-LABEL: func.func @associated
// CHECK-COUNT-2: arith.mulf
func.func @associated(%x: f32) -> f32 {
  %c2 = arith.constant 2.0 : f32
  %c3 = arith.constant 3.0 : f32
  %0 = arith.mulf %x, %c2 : f32
  %1 = arith.mulf %0, %c3 fastmath<reassoc> : f32
  return %1 : f32
}

// -----

// Not rewritten because of signed zeros, infinities and NaN.

// CHECK-LABEL: func.func @special_values
// CHECK: arith.addf
// CHECK: arith.subf
// CHECK: arith.mulf
// CHECK: arith.subf
func.func @special_values(%x: f32) -> (f32, f32, f32, f32) {
  %minus_zero = arith.constant -0.0 : f32
  %zero = arith.constant 0.0 : f32
  %0 = arith.addf %x, %zero : f32
  %1 = arith.subf %x, %minus_zero : f32
  %2 = arith.mulf %x, %zero : f32
  %3 = arith.subf %x, %x : f32
  return %0, %1, %2, %3 : f32, f32, f32, f32
}

// -----

// Not rewritten because the result is undefined, poison, or does not fit.

// CHECK-LABEL: func.func @undefined
// CHECK: arith.divsi
// CHECK: arith.divsi
// CHECK: arith.shli
// CHECK: arith.fptosi
func.func @undefined(%x: i8) -> (i8, i8, i8, i8) {
  %c0 = arith.constant 0 : i8
  %c_1 = arith.constant -1 : i8
  %c8 = arith.constant 8 : i8
  %min = arith.constant -128 : i8
  %big = arith.constant 128.0 : f32
  %0 = arith.divsi %c8, %c0 : i8
  %1 = arith.divsi %min, %c_1 : i8
  %2 = arith.shli %c8, %c8 : i8
  %3 = arith.fptosi %big : f32 to i8
  return %0, %1, %2, %3 : i8, i8, i8, i8
}

// -----

// Not rewritten because the type in between is narrower, or the signs differ.

// CHECK-LABEL: func.func @lossy_casts
// CHECK-COUNT-4: arith.{{index_cast|ext}}
func.func @lossy_casts(%i: index, %x: i8) -> (index, i32) {
  %0 = arith.index_cast %i : index to i32
  %1 = arith.index_cast %0 : i32 to index
  %2 = arith.extsi %x : i8 to i16
  %3 = arith.extui %2 : i16 to i32
  return %1, %3 : index, i32
}

// Equal operands that are computed twice are known to be equal in one run.
// CHECK-LABEL: func.func @equal_operands
// CHECK-NEXT: func.return %b
func.func @equal_operands(%a: index, %b: index, %c: i1) -> index {
  %0 = arith.addi %a, %b : index
  %1 = arith.addi %b, %a : index
  %2 = arith.subi %0, %1 : index
  %3 = arith.addi %2, %b : index
  return %3 : index
}

// -----

// An integer is what it is; a float may be NaN, and a constant has a static shape.

// CHECK-LABEL: func.func @compared_with_itself
// CHECK-DAG: [[FALSE:%.+]] = arith.constant false
// CHECK-DAG: [[ALL:%.+]] = arith.constant dense<true> : tensor<2x3xi1>
// CHECK-DAG: [[DYNAMIC:%.+]] = arith.cmpi eq, %d, %d : tensor<?xi32>
// CHECK-DAG: [[FLOATS:%.+]] = arith.cmpf oeq, %f, %f : tensor<3xf32>
// CHECK: func.return [[FALSE]], [[ALL]], [[DYNAMIC]], [[FLOATS]]
func.func @compared_with_itself(%i: index, %t: tensor<2x3xi8>, %d: tensor<?xi32>, %f: tensor<3xf32>) -> (i1, tensor<2x3xi1>, tensor<?xi1>, tensor<3xi1>) {
  %0 = arith.cmpi slt, %i, %i : index
  %1 = arith.cmpi ule, %t, %t : tensor<2x3xi8>
  %2 = arith.cmpi eq, %d, %d : tensor<?xi32>
  %3 = arith.cmpf oeq, %f, %f : tensor<3xf32>
  return %0, %1, %2, %3 : i1, tensor<2x3xi1>, tensor<?xi1>, tensor<3xi1>
}
