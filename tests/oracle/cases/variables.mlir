// With an initial value, several, of rank 0 too, used in a branch as well.
module {
  tosa.variable @counter = dense<7> : tensor<i32>
  tosa.variable @"odd name" = dense<[1.0, -0.0, 0x7FC00001]> : tensor<3xf32>
  tosa.variable @third = dense<-1> : tensor<2x3xi8>
  func.func @main(%c: tensor<i1>, %x: tensor<3xf32>) -> (tensor<3xf32>, tensor<i32>) {
    %0 = tosa.variable_read @"odd name" : tensor<3xf32>
    %1 = tosa.add %0, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xf32>
    tosa.variable_write @"odd name", %1 : tensor<3xf32>
    %2 = tosa.variable_read @counter : tensor<i32>
    tosa.variable_write @counter, %2 : tensor<i32>
    tosa.variable_write @counter, %2 : tensor<i32>
    %3 = "tosa.cond_if"(%c, %1) ({
    ^bb0(%a: tensor<3xf32>):
      %4 = tosa.variable_read @"odd name" : tensor<3xf32>
      "tosa.yield"(%4) : (tensor<3xf32>) -> ()
    }, {
    ^bb0(%a: tensor<3xf32>):
      tosa.variable_write @"odd name", %a : tensor<3xf32>
      "tosa.yield"(%a) : (tensor<3xf32>) -> ()
    }) : (tensor<i1>, tensor<3xf32>) -> tensor<3xf32>
    return %3, %2 : tensor<3xf32>, tensor<i32>
  }
}

// -----

// More than ten: their order is by number, not by name.
module {
  tosa.variable @a = dense<0> : tensor<1xi8>
  tosa.variable @b = dense<1> : tensor<1xi8>
  tosa.variable @c = dense<2> : tensor<1xi8>
  tosa.variable @d = dense<3> : tensor<1xi8>
  tosa.variable @e = dense<4> : tensor<1xi8>
  tosa.variable @f = dense<5> : tensor<1xi8>
  tosa.variable @g = dense<6> : tensor<1xi8>
  tosa.variable @h = dense<7> : tensor<1xi8>
  tosa.variable @i = dense<8> : tensor<1xi8>
  tosa.variable @j = dense<9> : tensor<1xi8>
  tosa.variable @k = dense<10> : tensor<1xi8>
  tosa.variable @l = dense<11> : tensor<1xi8>
  func.func @main() -> tensor<1xi8> {
    %0 = tosa.variable_read @k : tensor<1xi8>
    return %0 : tensor<1xi8>
  }
}

// -----

// Without an initial value, which tosa-opt writes and cannot read.
// differs: import: .*crash
module {
  tosa.variable @state : tensor<2x3xf32>
  func.func @main() -> tensor<2x3xf32> {
    %0 = tosa.variable_read @state : tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
}

// -----

// Of a shape that is not all known: tosa-opt writes 0 where a tensor that is no variable has -1.
// differs: export: \.regions\[0\]\.blocks\[0\]\.tensors\[0\]\.shape\[0\]: 0 != -1
// differs: import: .*crash
module {
  tosa.variable @state : tensor<?x3xf32>
  func.func @main(%a: tensor<?x3xf32>) -> tensor<?x3xf32> {
    tosa.variable_write @state, %a : tensor<?x3xf32>
    %0 = tosa.variable_read @state : tensor<?x3xf32>
    return %0 : tensor<?x3xf32>
  }
}
