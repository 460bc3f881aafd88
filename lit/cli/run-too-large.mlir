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
