// Tensors that no memory holds are one error, on every device, whether the sizes are written or bound.
// RUN: not convir-run %s --function dynamic --input=1xf32=ONES 2>&1 | filecheck %s --check-prefix=BOUND
// RUN: not convir-run %s --function dynamic --input=1xf32=ONES --device host 2>&1 | filecheck %s --check-prefix=HOST
// RUN: not convir-run %s --function dynamic --input=3xf32=ONES 2>&1 | filecheck %s --check-prefix=WRAPS
// RUN: not convir-run %s --function static 2>&1 | filecheck %s --check-prefix=STATIC
// RUN: not convir-opt %s -p 'bind-sizes{function=dynamic sizes="9223372036854775808"}' 2>&1 | filecheck %s --check-prefix=SIZE

// BOUND: run-too-large.mlir:{{[0-9]+}}:8: error: 'tensor.empty' op gives tensor<4611686018427387904xf32>, which no address space holds
// HOST: error: tensor<4611686018427387904xf32> takes 18446744073709551616 bytes, which no address space holds
// WRAPS: run-too-large.mlir:{{[0-9]+}}:8: error: 'tensor.empty' op has a size of -4611686018427387904
// SIZE: error: '9223372036854775808' has a size that no index holds
func.func @dynamic(%x: tensor<?xf32>) -> tensor<?xf32> {
  %c0 = arith.constant 0 : index
  %big = arith.constant 4611686018427387904 : index
  %d = tensor.dim %x, %c0 : tensor<?xf32>
  %n = arith.muli %d, %big : index
  %e = tensor.empty(%n) : tensor<?xf32>
  return %e : tensor<?xf32>
}

// STATIC: run-too-large.mlir:{{[0-9]+}}:8: error: 'tensor.empty' op gives tensor<4294967296x4294967296xf32>, which no address space holds
func.func @static() -> tensor<4294967296x4294967296xf32> {
  %e = tensor.empty() : tensor<4294967296x4294967296xf32>
  return %e : tensor<4294967296x4294967296xf32>
}

// What this machine has no memory for is refused before it is spent, and costs nothing where nobody writes it.
// RUN: not convir-run %s --function padded 2>&1 | filecheck %s --check-prefix=PAD
// RUN: not convir-run %s --function padded --device host 2>&1 | filecheck %s --check-prefix=PAD-HOST
// RUN: not convir-run %s --function given --input=index=20000000000000 2>&1 | filecheck %s --check-prefix=GIVEN
// RUN: convir-run %s --function read --device host | filecheck %s --check-prefix=READ
// RUN: convir-run %s --function read | filecheck %s --check-prefix=READ

// PAD-HOST: run-too-large.mlir:{{[0-9]+}}:1: error: 'padded' takes {{[0-9]+}} bytes, more than the {{[0-9]+}} of memory
// PAD: run-too-large.mlir:{{[0-9]+}}:8: error: 'tensor.pad' op takes 80000000000016 bytes, more than the {{[0-9]+}} of memory
func.func @padded(%x: tensor<4xf32>) -> tensor<20000000000004xf32> {
  %c = arith.constant 1.0 : f32
  %y = tensor.pad %x low[0] high[20000000000000] {
    ^bb0(%i: index):
      tensor.yield %c : f32
  } : tensor<4xf32> to tensor<20000000000004xf32>
  return %y : tensor<20000000000004xf32>
}

// GIVEN: run-too-large.mlir:{{[0-9]+}}:1: error: 'func.func' op takes 80000000000000 bytes, more than the {{[0-9]+}} of memory
func.func @given(%n: index) -> tensor<?xf32> {
  %e = tensor.empty(%n) : tensor<?xf32>
  return %e : tensor<?xf32>
}

// READ: [1. 1. 1. 1.]
func.func @read() -> tensor<4xf32> {
  %c = arith.constant 1.0 : f32
  %e = tensor.empty() : tensor<20000000000000xf32>
  %f = linalg.fill ins(%c : f32) outs(%e : tensor<20000000000000xf32>) -> tensor<20000000000000xf32>
  %y = tensor.extract_slice %f[7] [4] [1] : tensor<20000000000000xf32> to tensor<4xf32>
  return %y : tensor<4xf32>
}
