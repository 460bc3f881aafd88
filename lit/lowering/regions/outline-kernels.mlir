// RUN: convir-opt %s -p outline-kernels --split-input-file | filecheck %s
// Regions become isolated functions.

// Captures are arguments, in the order of their first use; what costs nothing is repeated inside.
// CHECK:       kernel.func @main_0(%y: tensor<4xf32>, %x: tensor<4xf32>) -> tensor<4xf32> attributes {configs = {host = "loops"}} {
// CHECK-NEXT:    %ones = arith.constant dense<1.000000e+00> : tensor<4xf32>
// CHECK-NEXT:    %0 = arith.addf %y, %x : tensor<4xf32>
// CHECK-NEXT:    %1 = arith.addf %0, %ones : tensor<4xf32>
// CHECK-NEXT:    kernel.return %1 : tensor<4xf32>
// CHECK:       func.func @main
// CHECK-NEXT:    kernel.call @main_0(%y, %x) : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT:    func.return
func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %ones = arith.constant dense<1.0> : tensor<4xf32>
  %r = kernel.region configs {host = "loops"} {
    %0 = arith.addf %y, %x : tensor<4xf32>
    %1 = arith.addf %0, %ones : tensor<4xf32>
    kernel.yield %1 : tensor<4xf32>
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Elements that differ are uploaded once: an argument.
// CHECK:       kernel.func @main_0(%c: tensor<2xf32>) -> tensor<2xf32>
// CHECK:       func.func @main
// CHECK-NEXT:    %c = arith.constant dense<[1.000000e+00, 2.000000e+00]> : tensor<2xf32>
// CHECK-NEXT:    kernel.call @main_0(%c)
func.func @main() -> tensor<2xf32> {
  %c = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %r = kernel.region {
    %0 = arith.negf %c : tensor<2xf32>
    kernel.yield %0 : tensor<2xf32>
  } -> tensor<2xf32>
  return %r : tensor<2xf32>
}

// -----

// Kernels with the same body are one; another config is another kernel.
// CHECK:       kernel.func @main_0(
// CHECK:       kernel.func @main_2(
// CHECK-SAME:  attributes {configs = {host = "loops"}}
// CHECK:       func.func @main
// CHECK-NEXT:    %a = kernel.call @main_0(%x)
// CHECK-NEXT:    %b = kernel.call @main_0(%a)
// CHECK-NEXT:    %c = kernel.call @main_2(%b)
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = kernel.region {
    %0 = arith.negf %x : tensor<4xf32>
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  %b = kernel.region {
    %0 = arith.negf %a : tensor<4xf32>
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  %c = kernel.region configs {host = "loops"} {
    %0 = arith.negf %b : tensor<4xf32>
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  return %c : tensor<4xf32>
}

// -----

// A name that is taken is not used again.
// CHECK:       kernel.func @main_0_(
// CHECK:       func.func @main(
// CHECK:       func.func @main_0(
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %a = kernel.region {
    %0 = arith.negf %x : tensor<4xf32>
    kernel.yield %0 : tensor<4xf32>
  } -> tensor<4xf32>
  return %a : tensor<4xf32>
}
func.func @main_0(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

// A scalar is a tensor of one element; what is computed from it is computed in the kernel.
// CHECK:       kernel.func @main_0(%s: tensor<f32>, %x: tensor<4xf32>) -> tensor<4xf32> {
// CHECK-NEXT:    %0 = tensor.extract %s[] : tensor<f32>
// CHECK-NEXT:    %t = arith.negf %0 : f32
// CHECK-NEXT:    %1 = tensor.splat %t : tensor<4xf32>
// CHECK:       func.func @main
// CHECK-NEXT:    %0 = tensor.from_elements %s : tensor<f32>
// CHECK-NEXT:    kernel.call @main_0(%0, %x)
func.func @main(%x: tensor<4xf32>, %s: f32) -> tensor<4xf32> {
  %t = arith.negf %s : f32
  %r = kernel.region {
    %0 = tensor.splat %t : tensor<4xf32>
    %1 = arith.mulf %x, %0 : tensor<4xf32>
    kernel.yield %1 : tensor<4xf32>
  } -> tensor<4xf32>
  return %r : tensor<4xf32>
}

// -----

// Windows of two lengths are two kernels, though only the type of what counts them says so.
// CHECK:       kernel.func @windows_0
// CHECK:         tensor.empty() : tensor<3xf32>
// CHECK:       kernel.func @windows_1
// CHECK:         tensor.empty() : tensor<2xf32>
// CHECK:       func.func @windows
// CHECK:         kernel.call @windows_0
// CHECK:         kernel.call @windows_1
func.func @windows(%x: tensor<9xf32>) -> (tensor<3xf32>, tensor<3xf32>) {
  %zeros = arith.constant dense<0.0> : tensor<3xf32>
  %three = kernel.region {
    %window = tensor.empty() : tensor<3xf32>
    %sums = linalg.generic {indexing_maps = [affine_map<(i, j) -> (3 * i + j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x, %window : tensor<9xf32>, tensor<3xf32>) outs(%zeros : tensor<3xf32>) {
    ^bb0(%in: f32, %none: f32, %out: f32):
      %s = arith.addf %out, %in : f32
      linalg.yield %s : f32
    } -> tensor<3xf32>
    kernel.yield %sums : tensor<3xf32>
  } -> tensor<3xf32>
  %two = kernel.region {
    %window = tensor.empty() : tensor<2xf32>
    %sums = linalg.generic {indexing_maps = [affine_map<(i, j) -> (3 * i + j)>, affine_map<(i, j) -> (j)>, affine_map<(i, j) -> (i)>], iterator_types = ["parallel", "reduction"]} ins(%x, %window : tensor<9xf32>, tensor<2xf32>) outs(%zeros : tensor<3xf32>) {
    ^bb0(%in: f32, %none: f32, %out: f32):
      %s = arith.addf %out, %in : f32
      linalg.yield %s : f32
    } -> tensor<3xf32>
    kernel.yield %sums : tensor<3xf32>
  } -> tensor<3xf32>
  return %three, %two : tensor<3xf32>, tensor<3xf32>
}

// -----

// So are roundings to two types that are widened again.
// CHECK:       kernel.func @roundings_0
// CHECK:         arith.truncf {{.*}} to tensor<9xf16>
// CHECK:       kernel.func @roundings_1
// CHECK:         arith.truncf {{.*}} to tensor<9xbf16>
func.func @roundings(%x: tensor<9xf32>) -> (tensor<9xf32>, tensor<9xf32>) {
  %half = kernel.region {
    %0 = arith.truncf %x : tensor<9xf32> to tensor<9xf16>
    %1 = arith.extf %0 : tensor<9xf16> to tensor<9xf32>
    kernel.yield %1 : tensor<9xf32>
  } -> tensor<9xf32>
  %brain = kernel.region {
    %0 = arith.truncf %x : tensor<9xf32> to tensor<9xbf16>
    %1 = arith.extf %0 : tensor<9xbf16> to tensor<9xf32>
    kernel.yield %1 : tensor<9xf32>
  } -> tensor<9xf32>
  return %half, %brain : tensor<9xf32>, tensor<9xf32>
}
