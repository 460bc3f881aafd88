// RUN: convir-opt %s --split-input-file -p 'convert-conv-to-linalg,fuse-epilogue,form-kernel-regions,select-kernels{device=cuda}' --remarks 2>&1 | filecheck %s
// Gradients of weights with dense 16-bit channels go to wgmma, and say how their sums are divided.
// CHECK: not sm90_wgrad: rows of A, B or C do not start at multiples of 8 elements
// CHECK: predicted {{[0-9.]+}} µs, gemm {{[0-9.]+}} µs

// CHECK-LABEL: @long_reduction
// CHECK: kernel.region configs {cuda = "sm90_wgrad {{[0-9]+x[0-9]+}} stages={{[0-9]+}} roles={{[0-9]:[0-9]}} cluster={{[1-8]}} partition={{(split|stream)-k:.*}} blocks=132"} {
// CHECK: tensor.pad
// CHECK: kernel.yield
func.func @long_reduction(%x: tensor<32x13x13x256xf16>, %dy: tensor<32x13x13x256xf16>) -> tensor<256x3x3x256xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<256x3x3x256xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<256x3x3x256xf16>) -> tensor<256x3x3x256xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<32x13x13x256xf16>, tensor<32x13x13x256xf16>) outs(%init : tensor<256x3x3x256xf16>)
  func.return %dw : tensor<256x3x3x256xf16>
}

// -----
// Few positions and many results: whole tiles.

// CHECK-LABEL: @short_reduction
// CHECK: partition=data-parallel
func.func @short_reduction(%x: tensor<2x7x7x512xbf16>, %dy: tensor<2x7x7x512xbf16>) -> tensor<512x3x3x512xbf16> {
  %zero = arith.constant 0.0 : bf16
  %empty = tensor.empty() : tensor<512x3x3x512xbf16>
  %init = linalg.fill ins(%zero : bf16) outs(%empty : tensor<512x3x3x512xbf16>) -> tensor<512x3x3x512xbf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<2x7x7x512xbf16>, tensor<2x7x7x512xbf16>) outs(%init : tensor<512x3x3x512xbf16>)
  func.return %dw : tensor<512x3x3x512xbf16>
}

// -----
// Not by wgmma because a row of 100 channels is not a multiple of 16 bytes.

// CHECK-LABEL: @odd_rows
// CHECK-NOT: sm90_wgrad
func.func @odd_rows(%x: tensor<8x13x13x64xf16>, %dy: tensor<8x13x13x100xf16>) -> tensor<100x3x3x64xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<100x3x3x64xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<100x3x3x64xf16>) -> tensor<100x3x3x64xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) padding(1, 1) accumulate(f32) ins(%x, %dy : tensor<8x13x13x64xf16>, tensor<8x13x13x100xf16>) outs(%init : tensor<100x3x3x64xf16>)
  func.return %dw : tensor<100x3x3x64xf16>
}

// -----
// A plain product, but of few results with many terms each.

// CHECK-LABEL: @long_product
// CHECK: kernel.region configs {cuda = "sm90_wgrad {{.*}} partition=split-k:{{[0-9]+}}:reduce-scatter blocks=132"}
func.func @long_product(%x: tensor<32x40x40x128xf16>, %dy: tensor<32x40x40x64xf16>) -> tensor<64x1x1x128xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<64x1x1x128xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<64x1x1x128xf16>) -> tensor<64x1x1x128xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) accumulate(f32) ins(%x, %dy : tensor<32x40x40x128xf16>, tensor<32x40x40x64xf16>) outs(%init : tensor<64x1x1x128xf16>)
  func.return %dw : tensor<64x1x1x128xf16>
}

// -----
// A plain product that is soon done; of sizes that no record is of.

// CHECK-LABEL: @small_product
// CHECK: kernel.region configs {cuda = "sm90_wgrad {{.*}} partition=data-parallel blocks=132"}
func.func @small_product(%x: tensor<5x7x7x1024xf16>, %dy: tensor<5x7x7x1024xf16>) -> tensor<1024x1x1x1024xf16> {
  %zero = arith.constant 0.0 : f16
  %empty = tensor.empty() : tensor<1024x1x1x1024xf16>
  %init = linalg.fill ins(%zero : f16) outs(%empty : tensor<1024x1x1x1024xf16>) -> tensor<1024x1x1x1024xf16>
  %dw = conv.wgrad layouts(NHWC, KRSC, NHWC) accumulate(f32) ins(%x, %dy : tensor<5x7x7x1024xf16>, tensor<5x7x7x1024xf16>) outs(%init : tensor<1024x1x1x1024xf16>)
  func.return %dw : tensor<1024x1x1x1024xf16>
}
