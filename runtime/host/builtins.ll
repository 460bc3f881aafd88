; Conversions of half and bfloat that LLVM calls out for where the ISA lacks them.
; Integer arithmetic only, round to nearest even, NaN kept quiet; linked on demand.

define float @__extendhfsf2(half %h) {
  %bits16 = bitcast half %h to i16
  %bits = zext i16 %bits16 to i32
  %sign16 = and i32 %bits, 32768
  %sign = shl i32 %sign16, 16
  %magnitude = and i32 %bits, 32767
  ; Normal numbers: move the fields and rebias the exponent by 127 - 15.
  %moved = shl i32 %magnitude, 13
  %normal = add i32 %moved, 939524096
  ; Infinity and NaN: the exponent becomes all ones.
  %special = or i32 %moved, 2139095040
  ; Subnormals: an integer count of 2^-24.
  %count = uitofp i32 %magnitude to float
  %scaled = fmul float %count, 0x3E70000000000000
  %subnormal = bitcast float %scaled to i32
  %is_special = icmp uge i32 %magnitude, 31744
  %is_subnormal = icmp ult i32 %magnitude, 1024
  %large = select i1 %is_special, i32 %special, i32 %normal
  %unsigned = select i1 %is_subnormal, i32 %subnormal, i32 %large
  %result = or i32 %unsigned, %sign
  %value = bitcast i32 %result to float
  ret float %value
}

define half @__truncsfhf2(float %x) {
  %bits = bitcast float %x to i32
  %sign32 = lshr i32 %bits, 16
  %sign = and i32 %sign32, 32768
  %magnitude = and i32 %bits, 2147483647
  ; Normal results: rebias, then round the 13 dropped bits to nearest even.
  %rebased = sub i32 %magnitude, 939524096
  %odd_shifted = lshr i32 %magnitude, 13
  %odd = and i32 %odd_shifted, 1
  %bias = add i32 %odd, 4095
  %biased = add i32 %rebased, %bias
  %normal = lshr i32 %biased, 13
  ; Subnormal results: adding 0.5 puts the rounded count of 2^-24 in the low bits.
  %positive = bitcast i32 %magnitude to float
  %aligned = fadd float %positive, 5.000000e-01
  %aligned_bits = bitcast float %aligned to i32
  %subnormal = sub i32 %aligned_bits, 1056964608
  ; NaN keeps its leading payload bits and becomes quiet.
  %payload = lshr i32 %magnitude, 13
  %payload10 = and i32 %payload, 1023
  %nan = or i32 %payload10, 32256
  %is_nan = icmp ugt i32 %magnitude, 2139095040
  %is_overflow = icmp uge i32 %magnitude, 1199566848
  %is_subnormal = icmp ult i32 %magnitude, 947912704
  %finite = select i1 %is_subnormal, i32 %subnormal, i32 %normal
  %bounded = select i1 %is_overflow, i32 31744, i32 %finite
  %unsigned = select i1 %is_nan, i32 %nan, i32 %bounded
  %result = or i32 %unsigned, %sign
  %result16 = trunc i32 %result to i16
  %value = bitcast i16 %result16 to half
  ret half %value
}

define half @__truncdfhf2(double %x) {
  %odd = call float @round_to_odd(double %x)
  %value = call half @__truncsfhf2(float %odd)
  ret half %value
}

define bfloat @__truncsfbf2(float %x) {
  %bits = bitcast float %x to i32
  %odd_shifted = lshr i32 %bits, 16
  %odd = and i32 %odd_shifted, 1
  %bias = add i32 %odd, 32767
  %biased = add i32 %bits, %bias
  %quiet = or i32 %bits, 4194304
  %is_nan = fcmp uno float %x, %x
  %chosen = select i1 %is_nan, i32 %quiet, i32 %biased
  %high = lshr i32 %chosen, 16
  %high16 = trunc i32 %high to i16
  %value = bitcast i16 %high16 to bfloat
  ret bfloat %value
}

define bfloat @__truncdfbf2(double %x) {
  %odd = call float @round_to_odd(double %x)
  %value = call bfloat @__truncsfbf2(float %odd)
  ret bfloat %value
}

; A double as the float whose last bit is sticky, so that a second rounding is exact.
define internal float @round_to_odd(double %x) {
  %near = fptrunc double %x to float
  %back = fpext float %near to double
  %exact = fcmp ueq double %back, %x
  %bits = bitcast float %near to i32
  %magnitude_x = call double @llvm.fabs.f64(double %x)
  %magnitude_back = call double @llvm.fabs.f64(double %back)
  %rounded_up = fcmp ogt double %magnitude_back, %magnitude_x
  %down = sub i32 %bits, 1
  %truncated = select i1 %rounded_up, i32 %down, i32 %bits
  %sticky = or i32 %truncated, 1
  %sticky_float = bitcast i32 %sticky to float
  %value = select i1 %exact, float %near, float %sticky_float
  ret float %value
}

declare double @llvm.fabs.f64(double)
