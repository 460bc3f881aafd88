// A size that depends on an element is known to who executes: to the reference, to no compiler.
// RUN: convir-run %s --input=2xi32=3,4 | filecheck %s
// RUN: not convir-run %s --input=2xi32=3,4 --device host 2>&1 | filecheck %s --check-prefix=HOST

// CHECK: result #0: 3xi32
// HOST: run-dynamic-value.mlir:{{[0-9]+}}:8: error: 'tensor.empty' op has a size of dimension 0 that does not follow from the shapes of the arguments
func.func @main(%x: tensor<?xi32>) -> tensor<?xi32> {
  %c0 = arith.constant 0 : index
  %zero = arith.constant 0 : i32
  %element = tensor.extract %x[%c0] : tensor<?xi32>
  %n = arith.index_cast %element : i32 to index
  %e = tensor.empty(%n) : tensor<?xi32>
  %y = linalg.fill ins(%zero : i32) outs(%e : tensor<?xi32>) -> tensor<?xi32>
  return %y : tensor<?xi32>
}
