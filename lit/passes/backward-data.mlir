// The named pipeline on the two examples, at full size.
// RUN: convir-opt %S/../../examples/backward_data_1x1.mlir --pipeline backward-data | filecheck %s --check-prefix=ONE
// RUN: convir-opt %S/../../examples/backward_data_1x1.mlir --pipeline backward-data --remarks -o %t 2>&1 | filecheck %s --check-prefix=ONE-REMARK
// RUN: convir-opt %S/../../examples/backward_data_3x3_grouped.mlir --pipeline backward-data | filecheck %s --check-prefix=NINE
// RUN: convir-opt %S/../../examples/backward_data_3x3_grouped.mlir --pipeline backward-data --remarks -o %t 2>&1 | filecheck %s --check-prefix=NINE-REMARK

// One tap: the contraction reads dY as it is, and its rounded result is scattered.
// ONE-REMARK: [swap-strided-insert-slice-with-contraction] tensor.insert_slice rewritten: 336 -> 83.9 GFLOP
// ONE-REMARK: [convert-strided-insert-slice-to-generic] tensor.insert_slice not rewritten: no contraction reads it
// ONE-LABEL: @main(%dy: tensor<32x25x25x2048xf16>, %w: tensor<2048x1x1x1024xf16>)
// ONE:         %[[DX:.+]] = linalg.generic {{.*}} ins(%dy, %{{.+}} : tensor<32x25x25x2048xf16>, tensor<1024x2048xf16>)
// ONE:         %[[ROUNDED:.+]] = linalg.generic {{.*}} ins(%[[DX]] : tensor<32x25x25x1024xf32>)
// ONE:           arith.truncf
// ONE:         %[[R:.+]] = tensor.insert_slice %[[ROUNDED]] into %{{.+}}[0, 0, 0, 0] [32, 25, 25, 1024] [1, 2, 2, 1]
// ONE:         return %[[R]]

// Nine taps that overlap: four dense convolutions with 1, 2, 2 and 4 of them, a quarter of the FLOPs.
// NINE-REMARK: [decompose-strided-dgrad] tensor.insert_slice rewritten: 47.2 -> 11.8 GFLOP (4x fewer), none on a hole, 312 MFLOP on padding; 4 phases of 1 to 4 taps
// NINE-REMARK: [convert-strided-insert-slice-to-generic] tensor.insert_slice not rewritten: no contraction reads it
// NINE-LABEL: @main(%dy: tensor<32x25x25x1024xf16>, %w: tensor<1024x3x3x32xf16>)
// NINE:         %[[DY:.+]] = tensor.pad %{{.+}} low[0, 0, 0, 0, 0] high[0, 1, 1, 0, 0]
// NINE:         linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<32x25x25x32x32xf16>, tensor<32x32x1x1x32xf16>)
// NINE:         linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<32x25x26x32x32xf16>, tensor<32x32x1x2x32xf16>)
// NINE:         linalg.generic {{.*}} ins(%{{.+}}, %{{.+}} : tensor<32x26x25x32x32xf16>, tensor<32x32x2x1x32xf16>)
// NINE:         linalg.generic {{.*}} ins(%[[DY]], %{{.+}} : tensor<32x26x26x32x32xf16>, tensor<32x32x2x2x32xf16>)
// NINE-COUNT-4: tensor.insert_slice %{{.+}} [32, 25, 25, 32, 32] [1, 2, 2, 1, 1]
// NINE:         return
