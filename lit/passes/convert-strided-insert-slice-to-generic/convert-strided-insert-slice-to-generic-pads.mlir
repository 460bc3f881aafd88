// `pads` takes what pads as well: stride 1, bounds alone.
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic{pads=true},dce' | filecheck %s
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic{pads=true}' --remarks -o %t 2>&1 | filecheck %s --check-prefix=REMARK
// RUN: convir-opt %s --split-input-file -p 'convert-strided-insert-slice-to-generic' | filecheck %s --check-prefix=LEFT

func.func @pad(%x: tensor<4x8xf32>) -> tensor<7x8xf32> {
  %c = arith.constant 1.0 : f32
  %0 = tensor.pad %x low[1, 0] high[2, 0] {
  ^bb0(%i: index, %j: index):
    tensor.yield %c : f32
  } : tensor<4x8xf32> to tensor<7x8xf32>
  return %0 : tensor<7x8xf32>
}

// REMARK: tensor.pad rewritten: one pass
// LEFT-LABEL: @pad
// LEFT:         tensor.pad
// CHECK-LABEL: @pad
// CHECK-NOT:     tensor.pad
// CHECK:         %[[P:.+]] = arith.subi %{{.+}}, %c1
// CHECK-NEXT:    arith.cmpi sge, %[[P]], %c0
// CHECK-NEXT:    arith.cmpi slt, %[[P]], %c4
// CHECK:         tensor.extract %x

// -----

// A constant inside the pad's region moves out with the rest.

func.func @constant_inside(%x: tensor<4xf16>) -> tensor<6xf16> {
  %0 = tensor.pad %x low[2] high[0] {
  ^bb0(%i: index):
    %c = arith.constant 0.0 : f16
    tensor.yield %c : f16
  } : tensor<4xf16> to tensor<6xf16>
  return %0 : tensor<6xf16>
}

// CHECK-LABEL: @constant_inside
// CHECK:         %[[C:.+]] = arith.constant 0.000000e+00 : f16
// CHECK:         linalg.generic
// CHECK:         arith.select %{{.+}}, %{{.+}}, %[[C]]

// -----

// An insertion that pads.

func.func @insertion(%x: tensor<4xf32>) -> tensor<6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<6xf32>
  %0 = tensor.insert_slice %x into %zeros[1] [4] [1] : tensor<4xf32> into tensor<6xf32>
  return %0 : tensor<6xf32>
}

// CHECK-LABEL: @insertion
// CHECK-NOT:     insert_slice
// CHECK:         linalg.generic

// -----

// Not rewritten because the padding differs from place to place.

func.func @position_dependent(%x: tensor<4xindex>) -> tensor<6xindex> {
  %0 = tensor.pad %x low[1] high[1] {
  ^bb0(%i: index):
    tensor.yield %i : index
  } : tensor<4xindex> to tensor<6xindex>
  return %0 : tensor<6xindex>
}

// REMARK: tensor.pad not rewritten: the padding value depends on the position
// CHECK-LABEL: @position_dependent
// CHECK:         tensor.pad

// -----

// Not rewritten because no value holds the padded size.

func.func @dynamic_pad(%x: tensor<4xf32>, %high: index) -> tensor<?xf32> {
  %zero = arith.constant 0.0 : f32
  %0 = tensor.pad %x low[1] high[%high] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<?xf32>
  return %0 : tensor<?xf32>
}

// REMARK: tensor.pad not rewritten: its padded size is dynamic (dimension 0)
// CHECK-LABEL: @dynamic_pad
// CHECK:         tensor.pad
