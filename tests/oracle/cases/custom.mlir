// Any bytes may stand in a custom operator's attributes.
func.func @custom(%a: tensor<2xf32>, %b: tensor<3xi8>) -> (tensor<4xf32>, tensor<i32>) {
  %0:2 = "tosa.custom"(%a, %b) <{operator_name = "über op", domain_name = "vendor.\22x\22", implementation_attrs = "\00\01\FF\00binary\80\00"}> : (tensor<2xf32>, tensor<3xi8>) -> (tensor<4xf32>, tensor<i32>)
  return %0#0, %0#1 : tensor<4xf32>, tensor<i32>
}

// -----

// No operands, no results, no attributes.
func.func @empty() -> tensor<2xi8> {
  %0 = "tosa.custom"() <{operator_name = "source", domain_name = "", implementation_attrs = ""}> : () -> tensor<2xi8>
  "tosa.custom"(%0) <{operator_name = "sink", domain_name = "d", implementation_attrs = "x"}> : (tensor<2xi8>) -> ()
  return %0 : tensor<2xi8>
}
