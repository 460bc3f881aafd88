// RUN: convir-opt %s --split-input-file --verify-diagnostics

func.func @out_of_bounds(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  // expected-error@+1 {{'tensor.insert_slice' op slice along dimension 0 runs out-of-bounds: 8 >= 8}}
  %0 = tensor.insert_slice %x into %y[2] [4] [2] : tensor<4xf32> into tensor<8xf32>
  func.return
}

// -----

func.func @stride_zero(%x: tensor<4xf32>, %y: tensor<8xf32>) {
  // expected-error@+1 {{expected strides to be positive, but got 0}}
  %0 = tensor.insert_slice %x into %y[0] [4] [0] : tensor<4xf32> into tensor<8xf32>
  func.return
}

// -----

func.func @not_a_rank_reduction(%x: tensor<2x4xf32>) {
  // expected-error@+1 {{expected type to be tensor<2x3xf32> or a rank-reduced version, but got tensor<3xf32>}}
  %0 = tensor.extract_slice %x[0, 0] [2, 3] [1, 1] : tensor<2x4xf32> to tensor<3xf32>
  func.return
}

// -----

func.func @index_missing(%x: tensor<4x6xf32>, %i: index) {
  // expected-error@+1 {{expected 2 indices, got 1}}
  %0 = tensor.extract %x[%i] : tensor<4x6xf32>
  func.return
}

// -----

func.func @collapse(%x: tensor<4x6xf32>) {
  // expected-error@+1 {{expected dimension 0 of collapsed type to be 24}}
  %0 = tensor.collapse_shape %x [[0, 1]] : tensor<4x6xf32> into tensor<23xf32>
  func.return
}

// -----

func.func @pad(%x: tensor<4xf32>, %z: f32) {
  // expected-error@+1 {{expected dimension 0 of the result to be 6}}
  %0 = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %z : f32
  } : tensor<4xf32> to tensor<7xf32>
  func.return
}

// -----

func.func @compared_shape(%x: tensor<4xf32>) {
  // expected-error@+1 {{expected a result of type tensor<4xi1>, got i1}}
  %0 = "arith.cmpf"(%x, %x) <{predicate = 1 : i64}> : (tensor<4xf32>, tensor<4xf32>) -> i1
  func.return
}

// -----

func.func @predicate(%x: i32) {
  // expected-error@+1 {{expected an i64 from 0 to 9 as predicate}}
  %0 = "arith.cmpi"(%x, %x) <{predicate = 10 : i64}> : (i32, i32) -> i1
  func.return
}

// -----

func.func @predicate_of_floats(%x: i32) {
  // expected-error@+1 {{unknown predicate 'oeq', expected one of eq, ne, slt}}
  %0 = arith.cmpi oeq, %x, %x : i32
  func.return
}

// -----

func.func @widening(%x: f32) {
  // expected-error@+1 {{operand type f32 and result type f16 are cast incompatible}}
  %0 = arith.extf %x : f32 to f16
  func.return
}

// -----

func.func @yield(%x: tensor<4xf32>, %h: f16) {
  // expected-error@+1 {{type of yielded value #0 (f16) does not match the output's element type (f32)}}
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32):
    linalg.yield %h : f16
  } -> tensor<4xf32>
  func.return
}

// -----

func.func @loop_index(%x: tensor<4xf32>) {
  %0 = linalg.generic {indexing_maps = [affine_map<(d0) -> (d0)>], iterator_types = ["parallel"]} outs(%x : tensor<4xf32>) {
  ^bb0(%a: f32):
    // expected-error@+1 {{expected dim (1) to be lower than the number of loops (1)}}
    %1 = linalg.index 1 : index
    linalg.yield %a : f32
  } -> tensor<4xf32>
  func.return
}

// -----

func.func @used_before_it_is_defined(%x: f32) {
  // expected-error@+1 {{'arith.addf' op operand #0 does not dominate this use}}
  %0 = arith.addf %1, %x : f32
  %1 = arith.addf %x, %x : f32
  func.return
}

// -----

// The loop's own variable, where the loop begins.
func.func @used_where_it_is_not_yet(%n: index) -> index {
  // expected-error@+1 {{'scf.for' op operand #0 is never defined}}
  %0 = scf.for %i = %i to %n step %n iter_args(%sum = %n) -> (index) {
    scf.yield %i : index
  }
  func.return %0 : index
}

// -----

func.func @one_branch_only(%b: i1, %x: f32) -> f32 {
  cf.cond_br %b, ^bb1, ^bb2
^bb1:
  %0 = arith.negf %x : f32
  cf.br ^bb2
^bb2:
  // expected-error@+1 {{'func.return' op operand #0 does not dominate this use}}
  func.return %0 : f32
}

// -----

func.func @twice() {
  func.return
}

// expected-error@+1 {{redefinition of symbol named 'twice'}}
func.func @twice() {
  func.return
}
