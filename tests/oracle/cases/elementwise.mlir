// Operators on one element at a time, on floats.
func.func @floats(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>, %shift: tensor<1xi8>) -> (tensor<2x3xf32>, tensor<2x3xi1>) {
  %0 = tosa.erf %a : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tosa.sigmoid %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tosa.tanh %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = tosa.abs %2 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = tosa.ceil %3 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = tosa.cos %4 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = tosa.exp %5 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = tosa.floor %6 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = tosa.log %7 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = tosa.reciprocal %8 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %10 = tosa.rsqrt %9 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %11 = tosa.sin %10 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %12 = tosa.identity %11 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %13 = tosa.add %12, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %14 = tosa.sub %13, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %15 = tosa.mul %14, %b, %shift : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1xi8>) -> tensor<2x3xf32>
  %16 = tosa.pow %15, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %17 = "tosa.maximum"(%16, %b) <{nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %18 = "tosa.minimum"(%17, %b) <{nan_mode = #tosa.nan_mode<PROPAGATE>}> : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %19 = "tosa.minimum"(%18, %b) <{nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %20 = "tosa.clamp"(%19) <{min_val = -1.5 : f32, max_val = 6.0 : f32, nan_mode = #tosa.nan_mode<IGNORE>}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %zp = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %21 = tosa.negate %20, %zp, %zp : (tensor<2x3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x3xf32>
  %22 = tosa.equal %21, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xi1>
  %23 = tosa.greater %21, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xi1>
  %24 = tosa.greater_equal %21, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xi1>
  %25 = tosa.logical_and %22, %23 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %26 = tosa.logical_or %25, %24 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %27 = tosa.logical_xor %26, %22 : (tensor<2x3xi1>, tensor<2x3xi1>) -> tensor<2x3xi1>
  %28 = tosa.logical_not %27 : (tensor<2x3xi1>) -> tensor<2x3xi1>
  %29 = tosa.select %28, %21, %20 : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
  return %29, %28 : tensor<2x3xf32>, tensor<2x3xi1>
}

// -----

// ... on integers.
func.func @integers(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>, %t: tensor<2x3xi8>) -> (tensor<2x3xi32>, tensor<2x3xi8>) {
  %0 = tosa.bitwise_and %a, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %1 = tosa.bitwise_or %0, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %2 = tosa.bitwise_xor %1, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %3 = tosa.bitwise_not %2 : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %4 = tosa.clz %3 : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %5 = tosa.intdiv %4, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %6 = tosa.logical_left_shift %5, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %7 = tosa.logical_right_shift %6, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %8 = "tosa.arithmetic_right_shift"(%7, %b) <{round = true}> : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %9 = "tosa.arithmetic_right_shift"(%8, %b) <{round = false}> : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %shift = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %10 = tosa.mul %9, %b, %shift : (tensor<2x3xi32>, tensor<2x3xi32>, tensor<1xi8>) -> tensor<2x3xi32>
  %table = "tosa.const"() <{values = dense<7> : tensor<256xi8>}> : () -> tensor<256xi8>
  %11 = tosa.table %t, %table : (tensor<2x3xi8>, tensor<256xi8>) -> tensor<2x3xi8>
  %in_zp = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
  %out_zp = "tosa.const"() <{values = dense<127> : tensor<1xi8>}> : () -> tensor<1xi8>
  %12 = tosa.negate %11, %in_zp, %out_zp : (tensor<2x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3xi8>
  %13 = "tosa.clamp"(%12) <{min_val = -5 : i8, max_val = 100 : i8}> : (tensor<2x3xi8>) -> tensor<2x3xi8>
  return %10, %13 : tensor<2x3xi32>, tensor<2x3xi8>
}

// -----

// The bounds of a clamp are 8 bytes of an element of any type.
func.func @clamps(%a: tensor<3xi16>, %b: tensor<3xf16>, %c: tensor<3xbf16>, %d: tensor<3xf32>) -> (tensor<3xi16>, tensor<3xf16>, tensor<3xbf16>, tensor<3xf32>) {
  %0 = "tosa.clamp"(%a) <{min_val = -32768 : i16, max_val = 32767 : i16}> : (tensor<3xi16>) -> tensor<3xi16>
  %1 = "tosa.clamp"(%b) <{min_val = -0.0 : f16, max_val = 0x7C00 : f16}> : (tensor<3xf16>) -> tensor<3xf16>
  %2 = "tosa.clamp"(%c) <{min_val = 0xFF80 : bf16, max_val = 1.0 : bf16}> : (tensor<3xbf16>) -> tensor<3xbf16>
  %3 = "tosa.clamp"(%d) <{min_val = 0x00000001 : f32, max_val = 0x7F7FFFFF : f32}> : (tensor<3xf32>) -> tensor<3xf32>
  return %0, %1, %2, %3 : tensor<3xi16>, tensor<3xf16>, tensor<3xbf16>, tensor<3xf32>
}

// -----

// Casts between all the types that can be cast.
func.func @casts(%a: tensor<4xi1>) -> (tensor<4xi1>, tensor<4xf16>) {
  %0 = tosa.cast %a : (tensor<4xi1>) -> tensor<4xi8>
  %1 = tosa.cast %0 : (tensor<4xi8>) -> tensor<4xi16>
  %2 = tosa.cast %1 : (tensor<4xi16>) -> tensor<4xi32>
  %3 = tosa.cast %2 : (tensor<4xi32>) -> tensor<4xf32>
  %4 = tosa.cast %3 : (tensor<4xf32>) -> tensor<4xf16>
  %5 = tosa.cast %4 : (tensor<4xf16>) -> tensor<4xf8E4M3FN>
  %6 = tosa.cast %5 : (tensor<4xf8E4M3FN>) -> tensor<4xbf16>
  %7 = tosa.cast %6 : (tensor<4xbf16>) -> tensor<4xf8E5M2>
  %8 = tosa.cast %7 : (tensor<4xf8E5M2>) -> tensor<4xf16>
  %9 = tosa.cast %2 : (tensor<4xi32>) -> tensor<4xi1>
  return %9, %8 : tensor<4xi1>, tensor<4xf16>
}
