// RUN: not convir-opt %s -p 'partition-reduction{kind=bush}' 2>&1 | filecheck %s
// RUN: not convir-opt %s -p 'partition-reduction{kind=split-k}' 2>&1 | filecheck %s --check-prefix=PARTS
// RUN: not convir-opt %s -p 'partition-reduction{kind=stream-k reduction=reduce-scatter}' 2>&1 | filecheck %s --check-prefix=SLICES
// RUN: not convir-opt %s -p 'partition-reduction{kind=data-parallel waves=blocks}' 2>&1 | filecheck %s --check-prefix=WAVES

// CHECK: 'bush:linear' is not a partition
// PARTS: split-k with 1 splits
// SLICES: stream-k is not reduced by a reduce-scatter
// WAVES: 'data-parallel:blocks' is not a partition
