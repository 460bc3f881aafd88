// RUN: convir-opt %s -p '' -t cuda | filecheck %s
// Past 2^31 elements: positions take 64 bits, and only what may reach them. Divisions stay narrow.

// CHECK:       // 16 elements a thread, 16 bytes
// CHECK:         if (const int [[I:i[0-9]+]] = (int)blockIdx.x * 128 + (int)threadIdx.x; [[I]] < range) {
// CHECK:           const int {{v[0-9]+}} = (int)((unsigned int)
// CHECK:           const long long [[AT:v[0-9]+]] = (long long)[[I]] * 16;
// CHECK:           convir::store(p1 + [[AT]],
func.func @main(%x: tensor<5000x5000x32xi8>) -> tensor<8000x10000x32xi8> {
  %z = arith.constant dense<0> : tensor<8000x10000x32xi8>
  %0 = tensor.insert_slice %x into %z[0, 0, 0] [5000, 5000, 32] [1, 2, 1]
    : tensor<5000x5000x32xi8> into tensor<8000x10000x32xi8>
  return %0 : tensor<8000x10000x32xi8>
}
