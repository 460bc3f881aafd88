// RUN: convir-opt %s -p form-kernel-regions | filecheck %s
// RUN: convir-opt %s -p form-kernel-regions --remarks 2>&1 | filecheck %s --check-prefix=REMARK
// What a kernel would compute for each of its readers is written to memory once it is too often.

// Every sum reads the one before at two places, and each of those it at two: 32 in the end.
// REMARK:      arith.mulf not rewritten: the kernel that reads it would compute each element 32 times, more than 16: it is written to memory
// CHECK-LABEL: func.func @doubling
// CHECK:       kernel.region {
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    kernel.yield
// CHECK:       kernel.region {
// CHECK-NEXT:    tensor.extract_slice
// CHECK-NEXT:    tensor.extract_slice
// CHECK-NEXT:    arith.addf
// CHECK:         kernel.yield
// CHECK-NOT:   kernel.region
func.func @doubling(%x: tensor<40xf32>) -> tensor<9xf32> {
  %0 = arith.mulf %x, %x : tensor<40xf32>
  %a1 = tensor.extract_slice %0[0] [39] [1] : tensor<40xf32> to tensor<39xf32>
  %b1 = tensor.extract_slice %0[1] [39] [1] : tensor<40xf32> to tensor<39xf32>
  %1 = arith.addf %a1, %b1 : tensor<39xf32>
  %a2 = tensor.extract_slice %1[0] [37] [1] : tensor<39xf32> to tensor<37xf32>
  %b2 = tensor.extract_slice %1[2] [37] [1] : tensor<39xf32> to tensor<37xf32>
  %2 = arith.addf %a2, %b2 : tensor<37xf32>
  %a3 = tensor.extract_slice %2[0] [33] [1] : tensor<37xf32> to tensor<33xf32>
  %b3 = tensor.extract_slice %2[4] [33] [1] : tensor<37xf32> to tensor<33xf32>
  %3 = arith.addf %a3, %b3 : tensor<33xf32>
  %a4 = tensor.extract_slice %3[0] [25] [1] : tensor<33xf32> to tensor<25xf32>
  %b4 = tensor.extract_slice %3[8] [25] [1] : tensor<33xf32> to tensor<25xf32>
  %4 = arith.addf %a4, %b4 : tensor<25xf32>
  %a5 = tensor.extract_slice %4[0] [9] [1] : tensor<25xf32> to tensor<9xf32>
  %b5 = tensor.extract_slice %4[16] [9] [1] : tensor<25xf32> to tensor<9xf32>
  %5 = arith.addf %a5, %b5 : tensor<9xf32>
  return %5 : tensor<9xf32>
}

// Neighbours share what they read: after five such sums an element is computed six times.
// CHECK-LABEL: func.func @neighbours
// CHECK:       kernel.region {
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    tensor.extract_slice
// CHECK-NEXT:    tensor.extract_slice
// CHECK-NEXT:    arith.addf
// CHECK:         kernel.yield
// CHECK-NOT:   kernel.region
func.func @neighbours(%x: tensor<14xf32>) -> tensor<9xf32> {
  %0 = arith.mulf %x, %x : tensor<14xf32>
  %a1 = tensor.extract_slice %0[0] [13] [1] : tensor<14xf32> to tensor<13xf32>
  %b1 = tensor.extract_slice %0[1] [13] [1] : tensor<14xf32> to tensor<13xf32>
  %1 = arith.addf %a1, %b1 : tensor<13xf32>
  %a2 = tensor.extract_slice %1[0] [12] [1] : tensor<13xf32> to tensor<12xf32>
  %b2 = tensor.extract_slice %1[1] [12] [1] : tensor<13xf32> to tensor<12xf32>
  %2 = arith.addf %a2, %b2 : tensor<12xf32>
  %a3 = tensor.extract_slice %2[0] [11] [1] : tensor<12xf32> to tensor<11xf32>
  %b3 = tensor.extract_slice %2[1] [11] [1] : tensor<12xf32> to tensor<11xf32>
  %3 = arith.addf %a3, %b3 : tensor<11xf32>
  %a4 = tensor.extract_slice %3[0] [10] [1] : tensor<11xf32> to tensor<10xf32>
  %b4 = tensor.extract_slice %3[1] [10] [1] : tensor<11xf32> to tensor<10xf32>
  %4 = arith.addf %a4, %b4 : tensor<10xf32>
  %a5 = tensor.extract_slice %4[0] [9] [1] : tensor<10xf32> to tensor<9xf32>
  %b5 = tensor.extract_slice %4[1] [9] [1] : tensor<10xf32> to tensor<9xf32>
  %5 = arith.addf %a5, %b5 : tensor<9xf32>
  return %5 : tensor<9xf32>
}

// What is read many times at one index is computed once.
// CHECK-LABEL: func.func @one_index
// CHECK:       kernel.region {
// CHECK-NEXT:    arith.mulf
// CHECK-NEXT:    arith.addf
// CHECK-NOT:     kernel.region
// CHECK:         kernel.yield
// CHECK-NOT:   kernel.region
func.func @one_index(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = arith.mulf %x, %x : tensor<4xf32>
  %1 = arith.addf %0, %0 : tensor<4xf32>
  %2 = arith.addf %1, %1 : tensor<4xf32>
  %3 = arith.addf %2, %2 : tensor<4xf32>
  %4 = arith.addf %3, %3 : tensor<4xf32>
  %5 = arith.addf %4, %4 : tensor<4xf32>
  %6 = arith.addf %5, %5 : tensor<4xf32>
  return %6 : tensor<4xf32>
}

// Behind two conditions it is computed for each, also at one index: 2, 4, 8, 16, and 32 times.
// REMARK:      arith.negf not rewritten: the kernel that reads it would compute each element 32 times, more than 16: it is written to memory
// CHECK-LABEL: func.func @conditions
// CHECK:       kernel.region {
// CHECK-NEXT:    math.absf
// CHECK-NEXT:    arith.negf
// CHECK-NEXT:    kernel.yield
// CHECK:       kernel.region {
// CHECK-NEXT:    tensor.pad
// CHECK-NOT:   kernel.region
func.func @conditions(%x: tensor<4xf32>) -> tensor<9xf32> {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %w = math.absf %x : tensor<4xf32>
  %0 = arith.negf %w : tensor<4xf32>
  %a1 = tensor.pad %0 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<4xf32> to tensor<5xf32>
  %b1 = tensor.pad %0 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<4xf32> to tensor<5xf32>
  %1 = arith.addf %a1, %b1 : tensor<5xf32>
  %a2 = tensor.pad %1 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<5xf32> to tensor<6xf32>
  %b2 = tensor.pad %1 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<5xf32> to tensor<6xf32>
  %2 = arith.addf %a2, %b2 : tensor<6xf32>
  %a3 = tensor.pad %2 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<6xf32> to tensor<7xf32>
  %b3 = tensor.pad %2 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<6xf32> to tensor<7xf32>
  %3 = arith.addf %a3, %b3 : tensor<7xf32>
  %a4 = tensor.pad %3 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<7xf32> to tensor<8xf32>
  %b4 = tensor.pad %3 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<7xf32> to tensor<8xf32>
  %4 = arith.addf %a4, %b4 : tensor<8xf32>
  %a5 = tensor.pad %4 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %zero : f32
  } : tensor<8xf32> to tensor<9xf32>
  %b5 = tensor.pad %4 low[0] high[1] {
  ^bb0(%i: index):
    tensor.yield %one : f32
  } : tensor<8xf32> to tensor<9xf32>
  %5 = arith.addf %a5, %b5 : tensor<9xf32>
  return %5 : tensor<9xf32>
}
