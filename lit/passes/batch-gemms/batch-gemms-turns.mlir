// RUN: convir-opt %s -p 'batch-gemms{workspace-bytes=500000},canonicalize' | filecheck %s

// Samples in turns are cut from the collapsed tensor, where kernels read them in place: a slice
// that is collapsed would be copied.
// CHECK-LABEL: @turns
// CHECK-DAG:   [[X:%[^ ]+]] = tensor.collapse_shape %x {{.*}} : tensor<2x64x40x40xf32> into tensor<2x64x1600xf32>
// CHECK-DAG:   tensor.extract_slice {{.*}}[0, 0, 0] [1, 64, 1600] [1, 1, 1]
// CHECK-DAG:   tensor.extract_slice {{.*}}[1, 0, 0] [1, 64, 1600] [1, 1, 1]
// CHECK-NOT:   tensor<1x64x40x40xf32>
// CHECK:       func.return
func.func @turns(%x: tensor<2x64x40x40xf32>, %w: tensor<128x64xf32>) -> tensor<2x128x1600xf32> {
  %zero = arith.constant dense<0.0> : tensor<128x1600xf32>
  %r = tensor.empty() : tensor<2x128x1600xf32>
  %x0 = tensor.extract_slice %x[0, 0, 0, 0] [1, 64, 40, 40] [1, 1, 1, 1] : tensor<2x64x40x40xf32> to tensor<64x40x40xf32>
  %c0 = tensor.collapse_shape %x0 [[0], [1, 2]] : tensor<64x40x40xf32> into tensor<64x1600xf32>
  %y0 = linalg.matmul ins(%w, %c0 : tensor<128x64xf32>, tensor<64x1600xf32>) outs(%zero : tensor<128x1600xf32>) -> tensor<128x1600xf32>
  %r0 = tensor.insert_slice %y0 into %r[0, 0, 0] [1, 128, 1600] [1, 1, 1] : tensor<128x1600xf32> into tensor<2x128x1600xf32>
  %x1 = tensor.extract_slice %x[1, 0, 0, 0] [1, 64, 40, 40] [1, 1, 1, 1] : tensor<2x64x40x40xf32> to tensor<64x40x40xf32>
  %c1 = tensor.collapse_shape %x1 [[0], [1, 2]] : tensor<64x40x40xf32> into tensor<64x1600xf32>
  %y1 = linalg.matmul ins(%w, %c1 : tensor<128x64xf32>, tensor<64x1600xf32>) outs(%zero : tensor<128x1600xf32>) -> tensor<128x1600xf32>
  %r1 = tensor.insert_slice %y1 into %r0[1, 0, 0] [1, 128, 1600] [1, 1, 1] : tensor<128x1600xf32> into tensor<2x128x1600xf32>
  func.return %r1 : tensor<2x128x1600xf32>
}
