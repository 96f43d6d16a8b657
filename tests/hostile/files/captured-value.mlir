// A branch that uses a value that is not its operand.
// where: :7
// hint: operand of the control-flow operator
func.func @main(%c: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "tosa.cond_if"(%c, %x) ({
  ^bb0(%a: tensor<2xf32>):
    %1 = tosa.add %a, %x : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32> // <- %x is not its own
    "tosa.yield"(%1) : (tensor<2xf32>) -> ()
  }, {
  ^bb0(%a: tensor<2xf32>):
    "tosa.yield"(%a) : (tensor<2xf32>) -> ()
  }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
