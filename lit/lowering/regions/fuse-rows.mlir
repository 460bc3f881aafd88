// RUN: convir-opt %s -p fuse-rows --split-input-file | filecheck %s
// RUN: convir-opt %s -p fuse-rows --split-input-file --remarks 2>&1 >/dev/null | filecheck %s --check-prefix=REMARK

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// A mean, and the deviations from it: what reads the sum element by element joins.
// REMARK: linalg.generic rewritten: 3 ops are 2 passes over each row
// CHECK-LABEL: func.func @deviations
// CHECK:       kernel.region {
// CHECK-NEXT:    linalg.generic
// CHECK:         arith.mulf
// CHECK:         arith.subf
// CHECK:         kernel.yield
// CHECK-NOT:   kernel.region
func.func @deviations(%x: tensor<4x64xf32>) -> tensor<4x64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %share = arith.constant dense<0.015625> : tensor<4xf32>
  %full = tensor.empty() : tensor<4x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %m = arith.mulf %s, %share : tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %m : tensor<4x64xf32>, tensor<4xf32>) outs(%full : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.subf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<4x64xf32>
  return %y : tensor<4x64xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>
#col = affine_map<(i, j) -> (j)>

// A sum over columns of what was divided by sums over rows: another pass cannot have it.
// REMARK: linalg.generic rewritten: 2 ops are 2 passes over each row
// REMARK: linalg.generic rewritten: 1 ops are 1 passes over each row
// CHECK-LABEL: func.func @rows_and_columns
// CHECK:       kernel.region {
// CHECK:         kernel.yield
// CHECK:       kernel.region {
// CHECK:         kernel.yield
func.func @rows_and_columns(%x: tensor<4x64xf32>) -> tensor<64xf32> {
  %zeros = arith.constant dense<0.0> : tensor<4xf32>
  %none = arith.constant dense<0.0> : tensor<64xf32>
  %full = tensor.empty() : tensor<4x64xf32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xf32>) outs(%zeros : tensor<4xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<4xf32>
  %y = linalg.generic {indexing_maps = [#id, #row, #id], iterator_types = ["parallel", "parallel"]} ins(%x, %s : tensor<4x64xf32>, tensor<4xf32>) outs(%full : tensor<4x64xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %d = arith.divf %a, %b : f32
    linalg.yield %d : f32
  } -> tensor<4x64xf32>
  %c = linalg.generic {indexing_maps = [#id, #col], iterator_types = ["reduction", "parallel"]} ins(%y : tensor<4x64xf32>) outs(%none : tensor<64xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<64xf32>
  return %c : tensor<64xf32>
}

// -----

#id = affine_map<(i, j) -> (i, j)>
#row = affine_map<(i, j) -> (i)>

// Not rewritten: integers have no vectors here.
// REMARK: linalg.generic not rewritten: it holds elements of type i32
// CHECK-LABEL: func.func @integers
// CHECK-NOT:   kernel.region
func.func @integers(%x: tensor<4x64xi32>) -> tensor<4xi32> {
  %zeros = arith.constant dense<0> : tensor<4xi32>
  %s = linalg.generic {indexing_maps = [#id, #row], iterator_types = ["parallel", "reduction"]} ins(%x : tensor<4x64xi32>) outs(%zeros : tensor<4xi32>) {
  ^bb0(%a: i32, %t: i32):
    %n = arith.addi %t, %a : i32
    linalg.yield %n : i32
  } -> tensor<4xi32>
  return %s : tensor<4xi32>
}

// -----

// The products on both sides of a softmax join it.
// REMARK: linalg.generic rewritten: attention is one kernel: its scores stay in a cache
// CHECK-LABEL: func.func @attention
// CHECK:       kernel.region {
// CHECK-NOT:   kernel.region
// CHECK:         kernel.yield
// CHECK:       return
func.func @attention(%q: tensor<2x8x4xf32>, %k: tensor<2x4x16xf32>, %v: tensor<2x16x4xf32>, %m: tensor<8x16xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %no.scores.e = tensor.empty() : tensor<2x8x16xf32>
  %no.scores = linalg.fill ins(%zero : f32) outs(%no.scores.e : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %least.e = tensor.empty() : tensor<2x8xf32>
  %least = linalg.fill ins(%low : f32) outs(%least.e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %none.e = tensor.empty() : tensor<2x8xf32>
  %none = linalg.fill ins(%zero : f32) outs(%none.e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %no.values.e = tensor.empty() : tensor<2x8x4xf32>
  %no.values = linalg.fill ins(%zero : f32) outs(%no.values.e : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(g, q, k, d) -> (g, q, d)>, affine_map<(g, q, k, d) -> (g, d, k)>, affine_map<(g, q, k, d) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x16xf32>)
    outs(%no.scores : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %p = arith.mulf %x0, %x1 : f32
    %r = arith.addf %to, %p : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%s : tensor<2x8x16xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %f = arith.constant 0.3 : f32
    %r = arith.mulf %x0, %f : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (q, k)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t, %m : tensor<2x8x16xf32>, tensor<8x16xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %r = arith.addf %x0, %x1 : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%u : tensor<2x8x16xf32>)
    outs(%least : tensor<2x8xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %r = arith.maximumf %to, %x0 : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%u, %a : tensor<2x8x16xf32>, tensor<2x8xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %d = arith.subf %x0, %x1 : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%b : tensor<2x8x16xf32>)
    outs(%none : tensor<2x8xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %r = arith.addf %to, %x0 : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%b, %c : tensor<2x8x16xf32>, tensor<2x8xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %r = arith.divf %x0, %x1 : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(g, q, c, k) -> (g, q, k)>, affine_map<(g, q, c, k) -> (g, k, c)>, affine_map<(g, q, c, k) -> (g, q, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w, %v : tensor<2x8x16xf32>, tensor<2x16x4xf32>)
    outs(%no.values : tensor<2x8x4xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %p = arith.mulf %x0, %x1 : f32
    %r = arith.addf %to, %p : f32
    linalg.yield %r : f32
  } -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// -----

// Not rewritten: 8193 scores of each query are memory.
// REMARK: linalg.generic not rewritten: a row of 8193 scores does not stay in a cache
// CHECK-LABEL: func.func @long_rows
// CHECK:       linalg.generic
// CHECK:       kernel.region {
// CHECK:         kernel.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  linalg.generic
func.func @long_rows(%q: tensor<2x8x4xf32>, %k: tensor<2x4x8193xf32>, %v: tensor<2x8193x4xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %no.scores.e = tensor.empty() : tensor<2x8x8193xf32>
  %no.scores = linalg.fill ins(%zero : f32) outs(%no.scores.e : tensor<2x8x8193xf32>) -> tensor<2x8x8193xf32>
  %least.e = tensor.empty() : tensor<2x8xf32>
  %least = linalg.fill ins(%low : f32) outs(%least.e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %none.e = tensor.empty() : tensor<2x8xf32>
  %none = linalg.fill ins(%zero : f32) outs(%none.e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %no.values.e = tensor.empty() : tensor<2x8x4xf32>
  %no.values = linalg.fill ins(%zero : f32) outs(%no.values.e : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(g, q, k, d) -> (g, q, d)>, affine_map<(g, q, k, d) -> (g, d, k)>, affine_map<(g, q, k, d) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x8193xf32>)
    outs(%no.scores : tensor<2x8x8193xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %p = arith.mulf %x0, %x1 : f32
    %r = arith.addf %to, %p : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8193xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%s : tensor<2x8x8193xf32>)
    outs(%no.scores.e : tensor<2x8x8193xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %f = arith.constant 0.3 : f32
    %r = arith.mulf %x0, %f : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8193xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%t : tensor<2x8x8193xf32>)
    outs(%least : tensor<2x8xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %r = arith.maximumf %to, %x0 : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t, %a : tensor<2x8x8193xf32>, tensor<2x8xf32>)
    outs(%no.scores.e : tensor<2x8x8193xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %d = arith.subf %x0, %x1 : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8193xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%b : tensor<2x8x8193xf32>)
    outs(%none : tensor<2x8xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %r = arith.addf %to, %x0 : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%b, %c : tensor<2x8x8193xf32>, tensor<2x8xf32>)
    outs(%no.scores.e : tensor<2x8x8193xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %r = arith.divf %x0, %x1 : f32
    linalg.yield %r : f32
  } -> tensor<2x8x8193xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(g, q, c, k) -> (g, q, k)>, affine_map<(g, q, c, k) -> (g, k, c)>, affine_map<(g, q, c, k) -> (g, q, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w, %v : tensor<2x8x8193xf32>, tensor<2x8193x4xf32>)
    outs(%no.values : tensor<2x8x4xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %p = arith.mulf %x0, %x1 : f32
    %r = arith.addf %to, %p : f32
    linalg.yield %r : f32
  } -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// -----

// Not rewritten: values of bf16 are no panels of f32.
// REMARK: linalg.generic not rewritten: its products are not of f32
// CHECK-LABEL: func.func @narrow_values
// CHECK:       linalg.generic
// CHECK:       kernel.region {
// CHECK:         kernel.yield
// CHECK-NEXT:  }
// CHECK-NEXT:  linalg.generic
func.func @narrow_values(%q: tensor<2x8x4xf32>, %k: tensor<2x4x16xf32>, %v: tensor<2x16x4xbf16>, %m: tensor<8x16xf32>) -> tensor<2x8x4xf32> {
  %zero = arith.constant 0.0 : f32
  %low = arith.constant 0xFF800000 : f32
  %no.scores.e = tensor.empty() : tensor<2x8x16xf32>
  %no.scores = linalg.fill ins(%zero : f32) outs(%no.scores.e : tensor<2x8x16xf32>) -> tensor<2x8x16xf32>
  %least.e = tensor.empty() : tensor<2x8xf32>
  %least = linalg.fill ins(%low : f32) outs(%least.e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %none.e = tensor.empty() : tensor<2x8xf32>
  %none = linalg.fill ins(%zero : f32) outs(%none.e : tensor<2x8xf32>) -> tensor<2x8xf32>
  %no.values.e = tensor.empty() : tensor<2x8x4xf32>
  %no.values = linalg.fill ins(%zero : f32) outs(%no.values.e : tensor<2x8x4xf32>) -> tensor<2x8x4xf32>
  %s = linalg.generic {indexing_maps = [affine_map<(g, q, k, d) -> (g, q, d)>, affine_map<(g, q, k, d) -> (g, d, k)>, affine_map<(g, q, k, d) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%q, %k : tensor<2x8x4xf32>, tensor<2x4x16xf32>)
    outs(%no.scores : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %p = arith.mulf %x0, %x1 : f32
    %r = arith.addf %to, %p : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %t = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%s : tensor<2x8x16xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %f = arith.constant 0.3 : f32
    %r = arith.mulf %x0, %f : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %u = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (q, k)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%t, %m : tensor<2x8x16xf32>, tensor<8x16xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %r = arith.addf %x0, %x1 : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %a = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%u : tensor<2x8x16xf32>)
    outs(%least : tensor<2x8xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %r = arith.maximumf %to, %x0 : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  %b = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%u, %a : tensor<2x8x16xf32>, tensor<2x8xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %d = arith.subf %x0, %x1 : f32
    %r = math.exp %d : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %c = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>], iterator_types = ["parallel", "parallel", "reduction"]}
    ins(%b : tensor<2x8x16xf32>)
    outs(%none : tensor<2x8xf32>) {
  ^bb0(%x0: f32, %to: f32):
    %r = arith.addf %to, %x0 : f32
    linalg.yield %r : f32
  } -> tensor<2x8xf32>
  %w = linalg.generic {indexing_maps = [affine_map<(g, q, k) -> (g, q, k)>, affine_map<(g, q, k) -> (g, q)>, affine_map<(g, q, k) -> (g, q, k)>], iterator_types = ["parallel", "parallel", "parallel"]}
    ins(%b, %c : tensor<2x8x16xf32>, tensor<2x8xf32>)
    outs(%no.scores.e : tensor<2x8x16xf32>) {
  ^bb0(%x0: f32, %x1: f32, %to: f32):
    %r = arith.divf %x0, %x1 : f32
    linalg.yield %r : f32
  } -> tensor<2x8x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(g, q, c, k) -> (g, q, k)>, affine_map<(g, q, c, k) -> (g, k, c)>, affine_map<(g, q, c, k) -> (g, q, c)>], iterator_types = ["parallel", "parallel", "parallel", "reduction"]}
    ins(%w, %v : tensor<2x8x16xf32>, tensor<2x16x4xbf16>)
    outs(%no.values : tensor<2x8x4xf32>) {
  ^bb0(%x0: f32, %x1: bf16, %to: f32):
    %wide = arith.extf %x1 : bf16 to f32
    %p = arith.mulf %x0, %wide : f32
    %r = arith.addf %to, %p : f32
    linalg.yield %r : f32
  } -> tensor<2x8x4xf32>
  return %y : tensor<2x8x4xf32>
}

// -----

#x = affine_map<(m, n, k) -> (m, k)>
#w = affine_map<(m, n, k) -> (k, n)>
#y = affine_map<(m, n, k) -> (m, n)>
#all = affine_map<(m, n) -> (m, n)>
#one = affine_map<(m, n) -> (m)>

// A product stores f16: what is widened behind that is read here. What rounds it is the product's.
// REMARK: linalg.generic rewritten: 3 ops are 2 passes over each row
// CHECK-LABEL: func.func @widened_behind_a_contraction
// CHECK:       arith.truncf
// CHECK:       kernel.region {
// CHECK:         arith.extf
// CHECK:         arith.addf
// CHECK:         arith.subf
// CHECK:         kernel.yield {{.*}} : tensor<8x32xf32>
func.func @widened_behind_a_contraction(%x: tensor<8x16xf16>, %w: tensor<16x32xf16>) -> tensor<8x32xf32> {
  %zeros = arith.constant dense<0.0> : tensor<8x32xf32>
  %none = arith.constant dense<0.0> : tensor<8xf32>
  %c = linalg.generic {indexing_maps = [#x, #w, #y], iterator_types = ["parallel", "parallel", "reduction"]} ins(%x, %w : tensor<8x16xf16>, tensor<16x32xf16>) outs(%zeros : tensor<8x32xf32>) {
  ^bb0(%a: f16, %b: f16, %t: f32):
    %p = arith.extf %a : f16 to f32
    %q = arith.extf %b : f16 to f32
    %m = arith.mulf %p, %q : f32
    %n = arith.addf %t, %m : f32
    linalg.yield %n : f32
  } -> tensor<8x32xf32>
  %half = tensor.empty() : tensor<8x32xf16>
  %full = tensor.empty() : tensor<8x32xf32>
  %r = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%c : tensor<8x32xf32>) outs(%half : tensor<8x32xf16>) {
  ^bb0(%a: f32, %o: f16):
    %n = arith.truncf %a : f32 to f16
    linalg.yield %n : f16
  } -> tensor<8x32xf16>
  %wide = linalg.generic {indexing_maps = [#all, #all], iterator_types = ["parallel", "parallel"]} ins(%r : tensor<8x32xf16>) outs(%full : tensor<8x32xf32>) {
  ^bb0(%a: f16, %o: f32):
    %n = arith.extf %a : f16 to f32
    linalg.yield %n : f32
  } -> tensor<8x32xf32>
  %s = linalg.generic {indexing_maps = [#all, #one], iterator_types = ["parallel", "reduction"]} ins(%wide : tensor<8x32xf32>) outs(%none : tensor<8xf32>) {
  ^bb0(%a: f32, %t: f32):
    %n = arith.addf %t, %a : f32
    linalg.yield %n : f32
  } -> tensor<8xf32>
  %d = linalg.generic {indexing_maps = [#all, #one, #all], iterator_types = ["parallel", "parallel"]} ins(%wide, %s : tensor<8x32xf32>, tensor<8xf32>) outs(%full : tensor<8x32xf32>) {
  ^bb0(%a: f32, %b: f32, %o: f32):
    %n = arith.subf %a, %b : f32
    linalg.yield %n : f32
  } -> tensor<8x32xf32>
  return %d : tensor<8x32xf32>
}
