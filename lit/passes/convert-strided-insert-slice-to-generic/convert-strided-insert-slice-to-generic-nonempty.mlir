// `assume-nonempty` vouches for dynamic sizes.
// RUN: convir-opt %s -p 'convert-strided-insert-slice-to-generic{assume-nonempty=true}' | filecheck %s

func.func @dynamic_image(%x: tensor<?x?x64xf32>, %h: index, %w: index) -> tensor<?x?x64xf32> {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  %p = tensor.dim %x, %c0 : tensor<?x?x64xf32>
  %q = tensor.dim %x, %c1 : tensor<?x?x64xf32>
  %zeros = tensor.splat %zero[%h, %w] : tensor<?x?x64xf32>
  %0 = tensor.insert_slice %x into %zeros[1, 0, 0] [%p, %q, 64] [2, 2, 1] : tensor<?x?x64xf32> into tensor<?x?x64xf32>
  return %0 : tensor<?x?x64xf32>
}

// CHECK-LABEL: @dynamic_image
// CHECK:         %[[EMPTY:.+]] = tensor.empty(%h, %w)
// CHECK:         linalg.generic {{.*}} outs(%[[EMPTY]] : tensor<?x?x64xf32>)
// CHECK:         arith.shrsi
// CHECK:         arith.cmpi slt
// CHECK:         arith.minsi
// CHECK-NEXT:    arith.maxsi
// CHECK:         linalg.index 2
// CHECK-NEXT:    tensor.extract
