// Where an epilogue finds the elements of its operands: at the result's own offset, or at its channel.
//
// Operands (generated, lowering/cuda/contraction/linear_operands.py):
//   kCount               how many there are
//   kFollowsResult[i]    operand i has an element for every element of the result, at its offset
//   kOffset[i], kChannel[i]   else it has one for every channel, or one for all
#pragma once

namespace convir {

template <class Operands>
struct OperandPlaces {
  long long at[Operands::kCount > 0 ? Operands::kCount : 1];

  // `element` of the result, which is of channel `channel`.
  __device__ __forceinline__ OperandPlaces(long long element, int channel) {
#pragma unroll
    for (int i = 0; i < Operands::kCount; ++i) {
      at[i] = Operands::kFollowsResult[i] ? element
                                          : Operands::kOffset[i] + Operands::kChannel[i] * channel;
    }
  }
};

}  // namespace convir
