// An argument returned as it is, and one never used.
func.func @returned(%a: tensor<2xf32>, %unused: tensor<3xi8>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
  return %a, %0 : tensor<2xf32>, tensor<2xf32>
}

// -----

// A result returned twice, an argument returned twice, a constant returned, a result never used.
func.func @twice(%a: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi8>) {
  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
  %unused = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
  %constant = "tosa.const"() <{values = dense<1> : tensor<1xi8>}> : () -> tensor<1xi8>
  return %0, %a, %0, %a, %constant : tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<2xf32>, tensor<1xi8>
}

// -----

// No arguments.
func.func @source() -> tensor<2xf32> {
  %0 = "tosa.const"() <{values = dense<[1.0, 2.0]> : tensor<2xf32>}> : () -> tensor<2xf32>
  %1 = tosa.abs %0 : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// No results.
func.func @sink(%a: tensor<2xf32>) {
  %0 = tosa.abs %a : (tensor<2xf32>) -> tensor<2xf32>
  return
}

// -----

// Nothing at all, and private.
func.func private @nothing() {
  return
}

// -----

// Names in the module are not looked at where names are generated.
func.func @named(%a: tensor<2xf32> {tosa.tensor_name = "in"}, %b: tensor<2xf32>) -> (tensor<2xf32> {tosa.tensor_name = "out"}) {
  %0 = tosa.add %a, %b {tosa.tensor_name = "sum"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %1 = tosa.sub %0, %b : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}

// -----

// Sizes that are not known.
func.func @dynamic(%a: tensor<?x3xf32>, %b: tensor<1x?xf32>) -> tensor<?x?xf32> {
  %0 = tosa.add %a, %b : (tensor<?x3xf32>, tensor<1x?xf32>) -> tensor<?x3xf32>
  %1 = tosa.tanh %0 : (tensor<?x3xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}

// -----

// An argument without a rank.
func.func @unranked(%a: tensor<*xf32>) -> tensor<2xf32> {
  %0 = tosa.abs %a : (tensor<*xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// -----

// A result without a rank. tosa-opt writes it as we do, and reads it as rank 0.
// differs: import: .* -> tensor<f32>, .* != .* -> tensor<\*xf32>,
func.func @unranked_result(%a: tensor<*xf32>) -> tensor<*xf32> {
  %0 = tosa.abs %a : (tensor<*xf32>) -> tensor<*xf32>
  return %0 : tensor<*xf32>
}

// -----

// Rank 0 throughout.
func.func @scalars(%a: tensor<f32>, %b: tensor<i64>) -> (tensor<f32>, tensor<i64>) {
  %0 = "tosa.const"() <{values = dense<2.5> : tensor<f32>}> : () -> tensor<f32>
  %1 = tosa.add %a, %0 : (tensor<f32>, tensor<f32>) -> tensor<f32>
  return %1, %b : tensor<f32>, tensor<i64>
}

// -----

// An argument of no elements, which no operator of the dialect takes. tosa-opt reads 0 as unknown.
// differs: import: .*tensor<\?x3xf32>.* != .*tensor<0x3xf32>
func.func @empty(%a: tensor<0x3xf32>) -> tensor<0x3xf32> {
  return %a : tensor<0x3xf32>
}

// -----

// More results than ten: layer_10 stands before layer_2, and shapes apart.
func.func @order(%a: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %0 = tosa.abs %a : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %1 = tosa.abs %0 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %2 = tosa.abs %1 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %3 = tosa.abs %2 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %s = "tosa.const_shape"() <{values = dense<2> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %4 = tosa.reshape %3, %s : (tensor<2x2xf32>, !tosa.shape<2>) -> tensor<2x2xf32>
  %5 = tosa.abs %4 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %6 = tosa.abs %5 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %7 = tosa.abs %6 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %8 = tosa.abs %7 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %9 = tosa.abs %8 : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %t = "tosa.const_shape"() <{values = dense<[4, 1]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %10 = tosa.reshape %9, %s : (tensor<2x2xf32>, !tosa.shape<2>) -> tensor<2x2xf32>
  return %10 : tensor<2x2xf32>
}

// -----

// Plain constants of the arith dialect, which torch-mlir leaves and tosa-opt does not know.
// differs: tosa-opt does not write it: .*Dialect `arith' not found
func.func @arith() -> (tensor<2xf32>, tensor<3xi8>) {
  %0 = arith.constant dense<[1.0, -0.0]> : tensor<2xf32>
  %1 = arith.constant dense<5> : tensor<3xi8>
  return %0, %1 : tensor<2xf32>, tensor<3xi8>
}

// -----

// ... and with their data in a resource, as torch-mlir leaves large ones.
// differs: tosa-opt does not write it: .*Dialect `arith' not found
func.func @arith_resource() -> tensor<5xi16> {
  %0 = arith.constant dense_resource<weight> : tensor<5xi16>
  return %0 : tensor<5xi16>
}
{-# dialect_resources: { builtin: { weight: "0x02000000010002000300FFFF0080" } } #-}
