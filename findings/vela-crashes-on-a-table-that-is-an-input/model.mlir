module attributes {tosa.description = "TOSA FBS Converted", tosa.fbs_version = "1.0.0"} {
  func.func @main(%arg0: tensor<1x1x1x1xi16> {tosa.tensor_name = "input3"}, %arg1: tensor<513xi16> {tosa.tensor_name = "const_1"}) -> (tensor<1x1x1x1xi32> {tosa.tensor_name = "table_1"}) {
    %0 = tosa.table %arg0, %arg1 : (tensor<1x1x1x1xi16>, tensor<513xi16>) -> tensor<1x1x1x1xi32>
    return %0 : tensor<1x1x1x1xi32>
  }
}

