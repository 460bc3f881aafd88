// RUN: convir-opt %s --split-input-file --verify-diagnostics -p 'bind-sizes{sizes="9x6","4x5"}' -o /dev/null
// Sizes that must be one number and are not, and sizes that no shape gives: an error at the op.

func.func @main(%x: tensor<?x6xf32>, %w: tensor<?x?xf32>) -> tensor<?x6xf32> {
  // expected-error@+1 {{'linalg.add' op cannot have these sizes: inferred input/output operand #1 has shape's dimension #0 to be 9, but found 4}}
  %y = linalg.add ins(%x, %w : tensor<?x6xf32>, tensor<?x?xf32>) outs(%x : tensor<?x6xf32>) -> tensor<?x6xf32>
  return %y : tensor<?x6xf32>
}

// -----

// expected-error@+1 {{'func.func' op argument 1 is tensor<?x8xf32>, which 4x5 does not fit}}
func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x8xf32>) {
  return
}

// -----

// expected-error@+1 {{'func.func' op argument 1 is index, not 4x5}}
func.func @main(%x: tensor<?x?xf32>, %n: index) {
  return
}

// -----

// expected-error@+1 {{'func.func' op takes 1 arguments, not 2}}
func.func @main(%x: tensor<?x?xf32>) {
  return
}

// -----

func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x8xf32> {
  // expected-error@+1 {{'tensor.cast' op is 9x6, but its type says ?x8}}
  %y = tensor.cast %x : tensor<?x?xf32> to tensor<?x8xf32>
  return %y : tensor<?x8xf32>
}

// -----

func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  %n = tensor.dim %w, %c0 : tensor<?x?xf32>
  %negative = arith.subi %n, %m : index
  // expected-error@+1 {{'tensor.empty' op has a size of -5}}
  %e = tensor.empty(%negative) : tensor<?xf32>
  return %e : tensor<?xf32>
}

// -----

// A window that does not fit into its input.
func.func @main(%x: tensor<?x6xf32>, %w: tensor<?x?xf32>) -> tensor<7x6xf32> {
  %e = tensor.empty() : tensor<7x6xf32>
  // expected-error@+1 {{'linalg.generic' op cannot have these sizes}}
  %y = linalg.generic {indexing_maps = [affine_map<(p, c, r) -> (p + r, c)>, affine_map<(p, c, r) -> (r, 0)>, affine_map<(p, c, r) -> (p, c)>], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<?x6xf32>, tensor<?x?xf32>) outs(%e : tensor<7x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    linalg.yield %acc : f32
  } -> tensor<7x6xf32>
  return %y : tensor<7x6xf32>
}

// -----

func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x2xf32> {
  // expected-error@+1 {{'tensor.extract_slice' op cannot have these sizes: slice along dimension 0 runs out-of-bounds: 9 >= 9}}
  %s = tensor.extract_slice %x[0, 0] [10, 2] [1, 1] : tensor<?x?xf32> to tensor<10x2xf32>
  %y = tensor.cast %s : tensor<10x2xf32> to tensor<?x2xf32>
  return %y : tensor<?x2xf32>
}

// -----

func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x2x?xf32> {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  %m = tensor.dim %x, %c0 : tensor<?x?xf32>
  // expected-error@+1 {{'tensor.expand_shape' op cannot have these sizes: expected dimension 1 of collapsed type to be 8}}
  %y = tensor.expand_shape %x [[0], [1, 2]] output_shape [%m, 2, %c4] : tensor<?x?xf32> into tensor<?x2x?xf32>
  return %y : tensor<?x2x?xf32>
}

// -----

func.func @main(%x: tensor<?x?xi32>, %w: tensor<?x?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %element = tensor.extract %x[%c0, %c0] : tensor<?x?xi32>
  %n = arith.index_cast %element : i32 to index
  // expected-error@+1 {{'tensor.empty' op has a size of dimension 0 that does not follow from the shapes of the arguments}}
  %e = tensor.empty(%n) : tensor<?xf32>
  return %e : tensor<?xf32>
}

// -----

func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) -> tensor<?x?xf32> {
  %true = arith.constant true
  // expected-error@+1 {{'scf.if' op has a result of dynamic size that no rule binds}}
  %y = scf.if %true -> (tensor<?x?xf32>) {
    scf.yield %x : tensor<?x?xf32>
  } else {
    scf.yield %w : tensor<?x?xf32>
  }
  return %y : tensor<?x?xf32>
}

// -----

func.func @other(%x: tensor<?x?xf32>) {
  return
}
func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) {
  // expected-error@+1 {{'func.call' op calls @other, which takes other sizes}}
  func.call @other(%x) : (tensor<?x?xf32>) -> ()
  return
}

// -----

func.func @main(%x: tensor<?x?xf32>, %w: tensor<?x?xf32>) {
  return
}
func.func @other(%x: tensor<?x?xf32>) {
  // expected-error@+1 {{'func.call' op calls @main, whose sizes cannot be bound alone}}
  func.call @main(%x, %x) : (tensor<?x?xf32>, tensor<?x?xf32>) -> ()
  return
}
