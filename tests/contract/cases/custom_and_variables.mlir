// The operators that the official generator never makes: custom, and the three of variables.
module {
  tosa.variable @counter = dense<[7, -1]> : tensor<2xi32>
  tosa.variable @state : tensor<2xf32>
  func.func @step(%x: tensor<2xi32> {tosa.tensor_name = "x"}, %y: tensor<2xf32> {tosa.tensor_name = "y"})
      -> (tensor<2xi32> {tosa.tensor_name = "next"}, tensor<2xf32> {tosa.tensor_name = "made"}) {
    %0 = "tosa.variable_read"() {name = "counter"} : () -> tensor<2xi32>
    %1 = "tosa.add"(%0, %x) : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
    "tosa.variable_write"(%1) {name = "counter"} : (tensor<2xi32>) -> ()
    "tosa.variable_write"(%y) {name = "state"} : (tensor<2xf32>) -> ()
    %2 = "tosa.variable_read"() {name = "state"} : () -> tensor<2xf32>
    %3 = "tosa.custom"(%2, %y) {operator_name = "swish", domain_name = "vendor",
        implementation_attrs = "\00\FFraw"} : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
    return %1, %3 : tensor<2xi32>, tensor<2xf32>
  }
}
