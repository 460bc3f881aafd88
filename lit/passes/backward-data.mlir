// The named pipeline on the two examples, at full size.
// RUN: convir-opt %S/../../examples/backward_data_1x1.mlir --pipeline backward-data | filecheck %s --check-prefix=ONE
// RUN: convir-opt %S/../../examples/backward_data_1x1.mlir --pipeline backward-data --remarks -o %t 2>&1 | filecheck %s --check-prefix=ONE-REMARK
// RUN: convir-opt %S/../../examples/backward_data_3x3_grouped.mlir --pipeline backward-data | filecheck %s --check-prefix=NINE
// RUN: convir-opt %S/../../examples/backward_data_3x3_grouped.mlir --pipeline backward-data --remarks -o %t 2>&1 | filecheck %s --check-prefix=NINE-REMARK

// One tap: the contraction reads dY as it is, and its rounded result is scattered.
// ONE-REMARK: [swap-strided-insert-slice-with-contraction] tensor.insert_slice rewritten: 335544320000 -> 83886080000 FLOPs
// ONE-REMARK: [convert-strided-insert-slice-to-generic] tensor.insert_slice not rewritten: no contraction reads it
// ONE-LABEL: @main(%dy: tensor<32x25x25x2048xf16>, %w: tensor<2048x1x1x1024xf16>)
// ONE:         %[[DX:.+]] = linalg.generic {{.*}} ins(%dy, %{{.+}} : tensor<32x25x25x2048xf16>, tensor<1024x2048xf16>)
// ONE:         %[[ROUNDED:.+]] = linalg.generic {{.*}} ins(%[[DX]] : tensor<32x25x25x1024xf32>)
// ONE:           arith.truncf
// ONE:         %[[R:.+]] = tensor.insert_slice %[[ROUNDED]] into %{{.+}}[0, 0, 0, 0] [32, 25, 25, 1024] [1, 2, 2, 1]
// ONE:         return %[[R]]

// Nine taps that overlap: the scatter stays before the convolution, as one pass.
// NINE-REMARK: [convert-strided-insert-slice-to-generic] tensor.insert_slice rewritten: one pass 59.9 us, fill and strided copy of 2048-byte runs 67.8 us, for a contraction
// NINE-LABEL: @main(%dy: tensor<32x25x25x1024xf16>, %w: tensor<1024x3x3x32xf16>)
// NINE-NOT:    insert_slice
// NINE:        linalg.generic {{.*}} outs(%{{.+}} : tensor<32x52x52x32x32xf16>)
// NINE:          arith.select
