// What the verifier of the conv ops rejects, and what it says.
// RUN: convir-opt %s --split-input-file --verify-diagnostics

// A layout names each dimension once.
func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{'NHHC' is not the layout of an activation}}
  %r = conv.fprop layouts(NHHC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

// A filter has its own letters.
func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{'NHWC' is not the layout of a filter}}
  %r = conv.fprop layouts(NHWC, NHWC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the layouts NHWC, KSC, NWC differ in their number of spatial dimensions}}
  %r = conv.fprop layouts(NHWC, KSC, NWC) strides(1, 1) padding(0, 0) dilations(1, 1)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the input has rank 3 but its layout is NHWC}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{strides must have one value for each of 2 spatial dimensions, found 1}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{strides must be at least 1, found 0}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) strides(1, 0)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{dilations must be at least 1, found -1}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) dilations(-1, 1)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

// Padding is never negative: the forward convolution would crop.
func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{pad_high must be at least 0, found -1}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) padding(1:-1, 0)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{groups must be at least 1, found 0}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) groups(0)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<3x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the input has N = 3 but the output has N = 2}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<3x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the input has C = 4 but the filter has C = 4 for each of 2 groups}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) groups(2)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<5x3x3x2xf32>, %init: tensor<2x7x7x5xf32>) -> tensor<2x7x7x5xf32> {
  // expected-error@+1 {{K = 5 is not a multiple of the 2 groups}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) groups(2)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<5x3x3x2xf32>) outs(%init : tensor<2x7x7x5xf32>)
  return %r : tensor<2x7x7x5xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<5x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the filter has K = 5 but the output has C = 6}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<5x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x0x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the filter must have at least 1 tap, found 0}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x0x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x8x7x6xf32>) -> tensor<2x8x7x6xf32> {
  // expected-error@+1 {{the output has H = 8 but 7 follows from the input's H = 9 with filter 3, stride 1, dilation 1, padding 0:0}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x8x7x6xf32>)
  return %r : tensor<2x8x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x11x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{along W, a filter that spans 11 does not fit a padded input of 9}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x11x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

// At stride 2, 25 outputs come from 49 or 50 inputs, not from 48.
func.func @f(%a: tensor<2x25x4xf32>, %b: tensor<4x1x6xf32>, %init: tensor<2x48x6xf32>) -> tensor<2x48x6xf32> {
  // expected-error@+1 {{the output has W = 25 but 24 follows from the input's W = 48}}
  %r = conv.dgrad layouts(NWC, KSC, NWC) strides(2)
         ins(%a, %b : tensor<2x25x4xf32>, tensor<4x1x6xf32>) outs(%init : tensor<2x48x6xf32>)
  return %r : tensor<2x48x6xf32>
}

// -----

// A wgrad's init says how many taps there are.
func.func @f(%a: tensor<2x25x6xf32>, %b: tensor<2x25x4xf32>, %init: tensor<4x3x6xf32>) -> tensor<4x3x6xf32> {
  // expected-error@+1 {{the output has W = 25 but 23 follows from the input's W = 25 with filter 3}}
  %r = conv.wgrad layouts(NWC, KSC, NWC)
         ins(%a, %b : tensor<2x25x6xf32>, tensor<2x25x4xf32>) outs(%init : tensor<4x3x6xf32>)
  return %r : tensor<4x3x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xi32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf32>) -> tensor<2x7x7x6xf32> {
  // expected-error@+1 {{the input has elements of type i32, not f16, bf16, f32, f64}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC)
         ins(%a, %b : tensor<2x9x9x4xi32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf32>)
  return %r : tensor<2x7x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf16>) -> tensor<2x7x7x6xf16> {
  // expected-error@+1 {{the accumulator f16 does not hold the input's f32}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) accumulate(f16)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf16>)
  return %r : tensor<2x7x7x6xf16>
}

// -----

// bf16 does not hold what f16 holds, nor the other way round.
func.func @f(%a: tensor<2x9x9x4xf16>, %b: tensor<6x3x3x4xf16>, %init: tensor<2x7x7x6xf16>) -> tensor<2x7x7x6xf16> {
  // expected-error@+1 {{the accumulator bf16 does not hold the input's f16}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) accumulate(bf16)
         ins(%a, %b : tensor<2x9x9x4xf16>, tensor<6x3x3x4xf16>) outs(%init : tensor<2x7x7x6xf16>)
  return %r : tensor<2x7x7x6xf16>
}

// -----

// The sum is rounded to the result's type, never widened to it.
func.func @f(%a: tensor<2x9x9x4xf32>, %b: tensor<6x3x3x4xf32>, %init: tensor<2x7x7x6xf64>) -> tensor<2x7x7x6xf64> {
  // expected-error@+1 {{the accumulator f32 does not hold the output's f64}}
  %r = conv.fprop layouts(NHWC, KRSC, NHWC) accumulate(f32)
         ins(%a, %b : tensor<2x9x9x4xf32>, tensor<6x3x3x4xf32>) outs(%init : tensor<2x7x7x6xf64>)
  return %r : tensor<2x7x7x6xf64>
}

// -----

func.func @f(%a: tensor<2x9x4xf32>, %b: tensor<6x3x4xf32>, %init: tensor<2x7x6xf32>) -> tensor<2x8x6xf32> {
  // expected-error@+1 {{the result has type tensor<2x8x6xf32> but its init has tensor<2x7x6xf32>}}
  %r = "conv.fprop"(%a, %b, %init) <{input_layout = "NWC", filter_layout = "KSC", output_layout = "NWC", strides = array<i64: 1>, pad_low = array<i64: 0>, pad_high = array<i64: 0>, dilations = array<i64: 1>, groups = 1 : i64, accumulator = f32}> : (tensor<2x9x4xf32>, tensor<6x3x4xf32>, tensor<2x7x6xf32>) -> tensor<2x8x6xf32>
  return %r : tensor<2x8x6xf32>
}

// -----

// What does not parse.
func.func @f(%a: tensor<2x9x4xf32>, %b: tensor<6x3x4xf32>, %init: tensor<2x7x6xf32>) -> tensor<2x7x6xf32> {
  // expected-error@+1 {{expected the layouts of input, filter and output, found 2}}
  %r = conv.fprop layouts(NWC, KSC) ins(%a, %b : tensor<2x9x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x7x6xf32>)
  return %r : tensor<2x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x4xf32>, %init: tensor<2x7x6xf32>) -> tensor<2x7x6xf32> {
  // expected-error@+1 {{expected 2 operands, found 1}}
  %r = conv.fprop layouts(NWC, KSC, NWC) ins(%a : tensor<2x9x4xf32>) outs(%init : tensor<2x7x6xf32>)
  return %r : tensor<2x7x6xf32>
}

// -----

func.func @f(%a: tensor<2x9x4xf32>, %b: tensor<6x3x4xf32>, %init: tensor<2x7x6xf32>) -> tensor<2x7x6xf32> {
  // expected-error@+1 {{sums in i32 are of an input and a filter of i8 and have an output of i32, found f32, f32, f32}}
  %r = conv.fprop layouts(NWC, KSC, NWC) accumulate(i32) ins(%a, %b : tensor<2x9x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x7x6xf32>)
  return %r : tensor<2x7x6xf32>
}
