// RUN: convir-opt %s -p decompose-strided-dgrad{force=true} | filecheck %s
// RUN: convir-opt %s -p decompose-strided-dgrad{force=true} --remarks -o /dev/null 2>&1 | filecheck %s --check-prefix=REMARK
// Every function is rewritten; tests/passes executes them before and after.

#image = affine_map<(n, w, f, r, c) -> (n, w + r, c)>
#weights = affine_map<(n, w, f, r, c) -> (f, r, c)>
#result = affine_map<(n, w, f, r, c) -> (n, w, f)>

// Three taps at stride 2: even outputs meet the middle one, odd outputs the outer two. The result
// has no holes, and starts from nothing.
// REMARK:      tensor.insert_slice rewritten: 1728 -> 864 FLOPs (2x fewer), none on a hole, 96 FLOPs on padding; 2 phases of 1 to 2 taps
// CHECK-LABEL: func.func @three_taps
// CHECK:         %[[X:.+]] = tensor.pad %x low[0, 0, 0] high[0, 1, 0]
// CHECK:         %[[X0:.+]] = tensor.extract_slice %[[X]][0, 0, 0] [2, 3, 4] [1, 1, 1]
// CHECK:         %[[W0:.+]] = tensor.extract_slice %w[0, 1, 0] [6, 1, 4] [1, 1, 1]
// CHECK:         %[[I0:.+]] = linalg.fill {{.*}} -> tensor<2x3x6xf32>
// CHECK:         %[[Y0:.+]] = linalg.generic {{.*}} ins(%[[X0]], %[[W0]] : {{.*}}) outs(%[[I0]] : tensor<2x3x6xf32>)
// CHECK:         %[[W1:.+]] = tensor.extract_slice %w[0, 0, 0] [6, 2, 4] [1, 2, 1]
// CHECK:         %[[Y1:.+]] = linalg.generic {{.*}} ins(%[[X]], %[[W1]] : {{.*}})
// CHECK:         %[[E:.+]] = tensor.empty() : tensor<2x6x6xf32>
// CHECK:         %[[Y2:.+]] = tensor.insert_slice %[[Y0]] into %[[E]][0, 0, 0] [2, 3, 6] [1, 2, 1]
// CHECK:         %[[Y3:.+]] = tensor.insert_slice %[[Y1]] into %[[Y2]][0, 1, 0] [2, 3, 6] [1, 2, 1]
// CHECK:         return %[[Y3]]
func.func @three_taps(%x: tensor<2x3x4xf32>, %w: tensor<6x3x4xf32>) -> tensor<2x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %zeros = arith.constant dense<0.0> : tensor<2x8x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  %e = tensor.empty() : tensor<2x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<2x6x6xf32>) -> tensor<2x6x6xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// Two taps at stride 3: every third output meets none. It holds the init, 2, after the elementwise
// op, which runs on each phase: 2 * 2.
// REMARK:      2 phases of 1 tap and 1 of no tap
// CHECK-LABEL: func.func @fewer_taps_than_the_stride
// CHECK:         %[[Y0:.+]] = linalg.generic
// CHECK:         %[[Y1:.+]] = linalg.generic
// CHECK:         %[[Z0:.+]] = linalg.generic {{.*}} ins(%[[Y0]] :
// CHECK:           arith.mulf
// CHECK:         %[[Z1:.+]] = linalg.generic {{.*}} ins(%[[Y1]] :
// CHECK:         %[[HOLES:.+]] = arith.constant dense<4.000000e+00> : tensor<2x9x6xf32>
// CHECK:         %[[R0:.+]] = tensor.insert_slice %[[Z0]] into %[[HOLES]][0, 0, 0] [2, 3, 6] [1, 3, 1]
// CHECK:         tensor.insert_slice %[[Z1]] into %[[R0]][0, 2, 0] [2, 3, 6] [1, 3, 1]
func.func @fewer_taps_than_the_stride(%x: tensor<2x3x4xf32>, %w: tensor<6x2x4xf32>) -> tensor<2x9x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x10x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 3, 4] [1, 3, 1] : tensor<2x3x4xf32> into tensor<2x10x4xf32>
  %init = arith.constant dense<2.0> : tensor<2x9x6xf32>
  %c = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x10x4xf32>, tensor<6x2x4xf32>) outs(%init : tensor<2x9x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x9x6xf32>
  %e = tensor.empty() : tensor<2x9x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(i, j, k) -> (i, j, k)>, affine_map<(i, j, k) -> (i, j, k)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%c : tensor<2x9x6xf32>) outs(%e : tensor<2x9x6xf32>) {
  ^bb0(%v: f32, %o: f32):
    %0 = arith.mulf %v, %v : f32
    linalg.yield %0 : f32
  } -> tensor<2x9x6xf32>
  return %r : tensor<2x9x6xf32>
}

// An init with elements of its own is added phase by phase, and is what the phases are put into.
// REMARK:      (2x fewer), none on a hole, 0 FLOPs on padding; 2 phases of 1 tap
// CHECK-LABEL: func.func @added_to_an_argument
// CHECK:         %[[I0:.+]] = tensor.extract_slice %y[0, 0, 0] [2, 3, 6] [1, 2, 1]
// CHECK:         linalg.generic {{.*}} outs(%[[I0]] :
// CHECK:         %[[I1:.+]] = tensor.extract_slice %y[0, 1, 0] [2, 3, 6] [1, 2, 1]
// CHECK:         linalg.generic {{.*}} outs(%[[I1]] :
// CHECK:         tensor.insert_slice %{{.+}} into %y[0, 0, 0]
func.func @added_to_an_argument(%x: tensor<2x3x4xf32>, %w: tensor<6x2x4xf32>, %y: tensor<2x6x6xf32>) -> tensor<2x6x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x7x4xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x7x4xf32>, tensor<6x2x4xf32>) outs(%y : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  return %r : tensor<2x6x6xf32>
}

// Taps two apart at stride 2 skip the holes by themselves: all of them for even outputs, none for odd.
// REMARK:      1 phase of 3 taps and 1 of no tap
// CHECK-LABEL: func.func @dilated
// CHECK:         linalg.generic {{.*}}(d0, (d1 + d3), d4){{.*}} tensor<6x3x4xf32>) outs(%{{.+}} : tensor<2x2x6xf32>)
// CHECK:         tensor.insert_slice %{{.+}}[0, 0, 0] [2, 2, 6] [1, 2, 1]
// CHECK-NOT:     tensor.insert_slice
// CHECK:         return
func.func @dilated(%x: tensor<2x4x4xf32>, %w: tensor<6x3x4xf32>) -> tensor<2x3x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x7x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0] [2, 4, 4] [1, 2, 1] : tensor<2x4x4xf32> into tensor<2x7x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x3x6xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, w, f, r, c) -> (n, w + 2 * r, c)>, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x7x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x3x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x3x6xf32>
  return %r : tensor<2x3x6xf32>
}

// A dynamic batch, a named op, and a pad around the scatter that one padding of the source replaces.
// REMARK:      tensor.insert_slice rewritten: 4x fewer FLOPs, none on a hole,
// CHECK-LABEL: func.func @named_and_dynamic
// CHECK-NOT:     tensor.insert_slice %x
// CHECK:         tensor.pad %x low[0, 1, 1, 0] high[0, 1, 1, 0]
// CHECK-COUNT-4: linalg.conv_2d_nhwc_hwcf
// CHECK-COUNT-4: tensor.insert_slice
// CHECK:         return
func.func @named_and_dynamic(%x: tensor<?x3x3x4xf32>, %w: tensor<4x4x4x6xf32>) -> tensor<?x6x6x6xf32> {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %n = tensor.dim %x, %c0 : tensor<?x3x3x4xf32>
  %ez = tensor.empty(%n) : tensor<?x6x6x4xf32>
  %zeros = linalg.fill ins(%zero : f32) outs(%ez : tensor<?x6x6x4xf32>) -> tensor<?x6x6x4xf32>
  %s = tensor.insert_slice %x into %zeros[0, 0, 0, 0] [%n, 3, 3, 4] [1, 2, 2, 1] : tensor<?x3x3x4xf32> into tensor<?x6x6x4xf32>
  %p = tensor.pad %s low[0, 2, 2, 0] high[0, 1, 1, 0] {
  ^bb0(%i: index, %j: index, %k: index, %l: index):
    tensor.yield %zero : f32
  } : tensor<?x6x6x4xf32> to tensor<?x9x9x4xf32>
  %e = tensor.empty(%n) : tensor<?x6x6x6xf32>
  %init = linalg.fill ins(%zero : f32) outs(%e : tensor<?x6x6x6xf32>) -> tensor<?x6x6x6xf32>
  %r = linalg.conv_2d_nhwc_hwcf {dilations = dense<1> : tensor<2xi64>, strides = dense<1> : tensor<2xi64>} ins(%p, %w : tensor<?x9x9x4xf32>, tensor<4x4x4x6xf32>) outs(%init : tensor<?x6x6x6xf32>) -> tensor<?x6x6x6xf32>
  return %r : tensor<?x6x6x6xf32>
}

// The result is scattered along rows afterwards: each phase is inserted where it ends up.
// REMARK:      2 phases of 1 to 2 taps
// CHECK-LABEL: func.func @scattered_again
// CHECK:         %[[ZEROS:.+]] = arith.constant dense<0.000000e+00> : tensor<4x6x6xf32>
// CHECK:         %[[R0:.+]] = tensor.insert_slice %{{.+}} into %[[ZEROS]][0, 0, 0] [2, 3, 6] [2, 2, 1]
// CHECK:         %[[R1:.+]] = tensor.insert_slice %{{.+}} into %[[R0]][0, 1, 0] [2, 3, 6] [2, 2, 1]
// CHECK:         return %[[R1]]
func.func @scattered_again(%x: tensor<2x3x4xf32>, %w: tensor<6x3x4xf32>) -> tensor<4x6x6xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x8x4xf32>
  %init = arith.constant dense<0.0> : tensor<2x6x6xf32>
  %s = tensor.insert_slice %x into %zeros[0, 1, 0] [2, 3, 4] [1, 2, 1] : tensor<2x3x4xf32> into tensor<2x8x4xf32>
  %c = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x8x4xf32>, tensor<6x3x4xf32>) outs(%init : tensor<2x6x6xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x6x6xf32>
  %holes = arith.constant dense<0.0> : tensor<4x6x6xf32>
  %r = tensor.insert_slice %c into %holes[0, 0, 0] [2, 6, 6] [2, 1, 1] : tensor<2x6x6xf32> into tensor<4x6x6xf32>
  return %r : tensor<4x6x6xf32>
}

// 14 x 14 taps at stride 14, unpadded, and three columns: 588 columns of one product instead of 196
// phases, then a shuffle. Outputs meet the taps in the reverse order.
// REMARK:      (196x fewer), none on a hole, 0 FLOPs on padding; one contraction with 196 taps as columns, then a shuffle
// CHECK-LABEL: func.func @pixel_shuffle
// CHECK:         %[[T:.+]] = linalg.generic {{.*}}["parallel", "parallel", "parallel", "parallel", "parallel", "parallel", "reduction"]{{.*}} ins(%x, %w : {{.*}}) outs(%{{.+}} : tensor<2x4x4x3x14x14xf32>)
// CHECK:         %[[S:.+]] = linalg.generic {{.*}} -> (d0, d1, d3, d5, ((d2 * -1) + 13), ((d4 * -1) + 13))>{{.*}} ins(%[[T]] : {{.*}}) outs(%{{.+}} : tensor<2x4x14x4x14x3xf32>)
// CHECK:         tensor.collapse_shape %[[S]] {{.*}} into tensor<2x56x56x3xf32>
// CHECK-NOT:     tensor.insert_slice
// CHECK:         return
func.func @pixel_shuffle(%x: tensor<2x4x4x8xf32>, %w: tensor<3x14x14x8xf32>) -> tensor<2x56x56x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x69x69x8xf32>
  %init = arith.constant dense<0.0> : tensor<2x56x56x3xf32>
  %s = tensor.insert_slice %x into %zeros[0, 13, 13, 0] [2, 4, 4, 8] [1, 14, 14, 1] : tensor<2x4x4x8xf32> into tensor<2x69x69x8xf32>
  %r = linalg.generic {indexing_maps = [affine_map<(n, h, w, f, r, s, c) -> (n, h + r, w + s, c)>, affine_map<(n, h, w, f, r, s, c) -> (f, r, s, c)>, affine_map<(n, h, w, f, r, s, c) -> (n, h, w, f)>], iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]} ins(%s, %w : tensor<2x69x69x8xf32>, tensor<3x14x14x8xf32>) outs(%init : tensor<2x56x56x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x56x56x3xf32>
  return %r : tensor<2x56x56x3xf32>
}

// An inverse STFT: 160 taps at stride 80, two strides, so each block of 80 outputs meets two elements
// and is 80 columns of a convolution with two taps. Padding of 40 cuts the first and last block.
// REMARK:      (80x fewer), none on a hole, {{.*}} on padding; one contraction with 80 taps as columns and 2 left, then a shuffle
// CHECK-LABEL: func.func @overlapping_pixel_shuffle
// CHECK:         %[[W:.+]] = linalg.generic {{.*}} outs(%{{.+}} : tensor<3x80x2x8xf32>)
// CHECK:         tensor.collapse_shape %[[W]] {{.*}} into tensor<240x2x8xf32>
// CHECK:         linalg.generic {{.*}} outs(%{{.+}} : tensor<2x5x240xf32>)
// CHECK:         tensor.extract_slice %{{.+}}[0, 40, 0] [2, 320, 3] [1, 1, 1]
// CHECK-NOT:     tensor.insert_slice
// CHECK:         return
func.func @overlapping_pixel_shuffle(%x: tensor<2x4x8xf32>, %w: tensor<3x160x8xf32>) -> tensor<2x320x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x479x8xf32>
  %init = arith.constant dense<0.0> : tensor<2x320x3xf32>
  %s = tensor.insert_slice %x into %zeros[0, 119, 0] [2, 4, 8] [1, 80, 1] : tensor<2x4x8xf32> into tensor<2x479x8xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x479x8xf32>, tensor<3x160x8xf32>) outs(%init : tensor<2x320x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x320x3xf32>
  return %r : tensor<2x320x3xf32>
}

// One element under 100 taps has no distance to another: its 100 outputs are one block.
// REMARK:      (100x fewer), none on a hole, 0 FLOPs on padding; one contraction with 100 taps as columns, then a shuffle
// CHECK-LABEL: func.func @one_element
// CHECK:         linalg.generic {{.*}} outs(%{{.+}} : tensor<2x1x3x100xf32>)
// CHECK-NOT:     tensor.insert_slice
// CHECK:         return
func.func @one_element(%x: tensor<2x1x8xf32>, %w: tensor<3x100x8xf32>) -> tensor<2x100x3xf32> {
  %zeros = arith.constant dense<0.0> : tensor<2x199x8xf32>
  %init = arith.constant dense<0.0> : tensor<2x100x3xf32>
  %s = tensor.insert_slice %x into %zeros[0, 99, 0] [2, 1, 8] [1, 1, 1] : tensor<2x1x8xf32> into tensor<2x199x8xf32>
  %r = linalg.generic {indexing_maps = [#image, #weights, #result], iterator_types = ["parallel", "parallel", "parallel", "reduction", "reduction"]} ins(%s, %w : tensor<2x199x8xf32>, tensor<3x100x8xf32>) outs(%init : tensor<2x100x3xf32>) {
  ^bb0(%a: f32, %b: f32, %acc: f32):
    %0 = arith.mulf %a, %b : f32
    %1 = arith.addf %acc, %0 : f32
    linalg.yield %1 : f32
  } -> tensor<2x100x3xf32>
  return %r : tensor<2x100x3xf32>
}
