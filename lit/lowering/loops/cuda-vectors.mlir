// RUN: convir-opt %s -p '' -t cuda --split-input-file | filecheck %s
// How many elements a thread writes at once, and why fewer than 16 bytes.

// A chain of f16: 16 bytes a load and a store, the bias shared, the arithmetic lane by lane.
// CHECK:       // 8 elements a thread, 16 bytes
// CHECK:         [[X:v[0-9]+]] = convir::load<8>(p0 + [[AT:v[0-9]+]]);
// CHECK:         for (int l = 0; l < 8; ++l) {{v[0-9]+}}[l] = convir::narrow<float>(convir::widen([[X]][l]));
// CHECK:         [[B:v[0-9]+]] = convir::load<8>(p1 + {{v[0-9]+}});
// CHECK-NOT:     convir::load
// CHECK:         convir::store(p2 + [[AT]], {{v[0-9]+}});
func.func @chain(%x: tensor<6x5x32xf16>, %b: tensor<32xf16>) -> tensor<6x5x32xf16> {
  %e = tensor.empty() : tensor<6x5x32xf16>
  %0 = linalg.generic {indexing_maps = [affine_map<(h,w,c) -> (h,w,c)>, affine_map<(h,w,c) -> (c)>,
                                        affine_map<(h,w,c) -> (h,w,c)>],
                       iterator_types = ["parallel", "parallel", "parallel"]}
      ins(%x, %b : tensor<6x5x32xf16>, tensor<32xf16>) outs(%e : tensor<6x5x32xf16>) {
  ^bb0(%a: f16, %c: f16, %o: f16):
    %1 = arith.extf %a : f16 to f32
    %2 = arith.extf %c : f16 to f32
    %3 = arith.addf %1, %2 : f32
    %4 = arith.truncf %3 : f32 to f16
    linalg.yield %4 : f16
  } -> tensor<6x5x32xf16>
  return %0 : tensor<6x5x32xf16>
}

// -----

// No run of whole rows is a multiple of two elements: single ones, with the reason.
// CHECK:       // 1 element a thread, 2 bytes: no rows are a multiple of 8 elements
// CHECK-NOT:   convir::load
// CHECK:       p1[
func.func @odd(%x: tensor<3x5x7xf16>) -> tensor<3x5x7xf16> {
  %0 = arith.addf %x, %x : tensor<3x5x7xf16>
  return %0 : tensor<3x5x7xf16>
}

// -----

// Rows of three are read together: vectors run through all dimensions.
// CHECK:       // 8 elements a thread, 16 bytes
// CHECK:         [[AT:v[0-9]+]] = [[I:i[0-9]+]] * 8;
// CHECK-NEXT:    convir::load<8>(p0 + [[AT]]);
func.func @rows_of_three(%x: tensor<8x5x3xf16>) -> tensor<8x5x3xf16> {
  %0 = arith.addf %x, %x : tensor<8x5x3xf16>
  return %0 : tensor<8x5x3xf16>
}

// -----

// The holes are tested once for all elements of a thread; only where there are none is x read.
// CHECK:       // 8 elements a thread, 16 bytes
// CHECK:         if ({{v[0-9]+}}) {
// CHECK:           convir::load<8>(p0 +
// CHECK:         } else {
// CHECK:         convir::store(p1 +
func.func @scatter(%x: tensor<3x4x16xbf16>) -> tensor<6x8x16xbf16> {
  %z = arith.constant dense<0.0> : tensor<6x8x16xbf16>
  %0 = tensor.insert_slice %x into %z[0, 0, 0] [3, 4, 16] [2, 2, 1]
    : tensor<3x4x16xbf16> into tensor<6x8x16xbf16>
  return %0 : tensor<6x8x16xbf16>
}

// -----

// As one generic the select becomes the test: what it does not take is not read.
// CHECK:       // 4 elements a thread, 16 bytes
// CHECK:         [[VALID:v[0-9]+]] = {{v[0-9]+}} == 0;
// CHECK:         if ([[VALID]]) {
// CHECK:           convir::load<4>(p0 +
func.func @generic(%x: tensor<3x8xf32>) -> tensor<6x8xf32> {
  %e = tensor.empty() : tensor<6x8xf32>
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1 : index
  %none = arith.constant 0 : index
  %0 = linalg.generic {indexing_maps = [affine_map<(h,c) -> (h,c)>],
                       iterator_types = ["parallel", "parallel"]} outs(%e : tensor<6x8xf32>) {
  ^bb0(%o: f32):
    %h = linalg.index 0 : index
    %c = linalg.index 1 : index
    %half = arith.shrsi %h, %one : index
    %rest = arith.andi %h, %one : index
    %valid = arith.cmpi eq, %rest, %none : index
    %a = tensor.extract %x[%half, %c] : tensor<3x8xf32>
    %r = arith.select %valid, %a, %zero : f32
    linalg.yield %r : f32
  } -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}

// -----

// Windows that overlap are unrolled, and read 16 bytes at a time what they need some of.
// CHECK:       // 8 elements a thread, 16 bytes
// CHECK:         [[ROW:v[0-9]+]] = convir::load<8>(p0 + [[AT:v[0-9]+]]);
// CHECK:         [[NEXT:v[0-9]+]] = convir::load<8>(p0 +
// CHECK-NOT:     for (int i
// CHECK:         convir::store(p1 +
func.func @pool(%x: tensor<4x32xf16>) -> tensor<4x16xf16> {
  %z = arith.constant dense<0.0> : tensor<4x16xf16>
  %k = tensor.empty() : tensor<2xf16>
  %0 = linalg.generic {indexing_maps = [affine_map<(h,w,s) -> (h,2*w+s)>, affine_map<(h,w,s) -> (s)>,
                                        affine_map<(h,w,s) -> (h,w)>],
                       iterator_types = ["parallel", "parallel", "reduction"]}
      ins(%x, %k : tensor<4x32xf16>, tensor<2xf16>) outs(%z : tensor<4x16xf16>) {
  ^bb0(%a: f16, %w: f16, %o: f16):
    %1 = arith.maximumf %o, %a : f16
    linalg.yield %1 : f16
  } -> tensor<4x16xf16>
  return %0 : tensor<4x16xf16>
}
