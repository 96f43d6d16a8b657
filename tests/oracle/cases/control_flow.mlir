// A conditional inside a loop's body.
func.func @nested(%n: tensor<i32>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0:2 = "tosa.while_loop"(%n, %x) ({
  ^bb0(%i: tensor<i32>, %v: tensor<2xf32>):
    %zero = "tosa.const"() <{values = dense<0> : tensor<i32>}> : () -> tensor<i32>
    %go = tosa.greater %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>
    "tosa.yield"(%go) : (tensor<i1>) -> ()
  }, {
  ^bb0(%i: tensor<i32>, %v: tensor<2xf32>):
    %one = "tosa.const"() <{values = dense<1> : tensor<i32>}> : () -> tensor<i32>
    %even = tosa.equal %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %next = tosa.sub %i, %one : (tensor<i32>, tensor<i32>) -> tensor<i32>
    %w = "tosa.cond_if"(%even, %v) ({
    ^bb0(%a: tensor<2xf32>):
      %t = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32>
      "tosa.yield"(%t) : (tensor<2xf32>) -> ()
    }, {
    ^bb0(%a: tensor<2xf32>):
      "tosa.yield"(%a) : (tensor<2xf32>) -> ()
    }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
    "tosa.yield"(%next, %w) : (tensor<i32>, tensor<2xf32>) -> ()
  }) : (tensor<i32>, tensor<2xf32>) -> (tensor<i32>, tensor<2xf32>)
  return %0#1 : tensor<2xf32>
}

// -----

// Two on one line. tosa-opt calls the regions of both the same, and so the second runs the first's;
// only the names may differ, since ours are unique.
func.func @same_line(%c: tensor<i1>, %x: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = "tosa.cond_if"(%c, %x) ({ ^bb0(%a: tensor<2xf32>): %t = tosa.exp %a : (tensor<2xf32>) -> tensor<2xf32> "tosa.yield"(%t) : (tensor<2xf32>) -> () }, { ^bb0(%a: tensor<2xf32>): "tosa.yield"(%a) : (tensor<2xf32>) -> () }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32> %1 = "tosa.cond_if"(%c, %x) ({ ^bb0(%a: tensor<2xf32>): %t = tosa.tanh %a : (tensor<2xf32>) -> tensor<2xf32> "tosa.yield"(%t) : (tensor<2xf32>) -> () }, { ^bb0(%a: tensor<2xf32>): "tosa.yield"(%a) : (tensor<2xf32>) -> () }) : (tensor<i1>, tensor<2xf32>) -> tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}

// -----

// No operands but the condition, and constants of their own in the branches.
func.func @constants(%c: tensor<1x1xi1>) -> tensor<i48> {
  %0 = "tosa.cond_if"(%c) ({
    %t = "tosa.const"() <{values = dense<-140737488355328> : tensor<i48>}> : () -> tensor<i48>
    "tosa.yield"(%t) : (tensor<i48>) -> ()
  }, {
    %e = "tosa.const"() <{values = dense<140737488355327> : tensor<i48>}> : () -> tensor<i48>
    "tosa.yield"(%e) : (tensor<i48>) -> ()
  }) : (tensor<1x1xi1>) -> tensor<i48>
  return %0 : tensor<i48>
}

// -----

// Three deep, and two operators after one another in the outermost block.
func.func @deep(%c: tensor<i1>, %x: tensor<f32>) -> tensor<f32> {
  %0 = "tosa.cond_if"(%c, %c, %x) ({
  ^bb0(%d: tensor<i1>, %a: tensor<f32>):
    %1 = "tosa.cond_if"(%d, %d, %a) ({
    ^bb0(%e: tensor<i1>, %b: tensor<f32>):
      %2 = "tosa.cond_if"(%e, %b) ({
      ^bb0(%f: tensor<f32>):
        %3 = tosa.abs %f : (tensor<f32>) -> tensor<f32>
        "tosa.yield"(%3) : (tensor<f32>) -> ()
      }, {
      ^bb0(%f: tensor<f32>):
        %3 = tosa.ceil %f : (tensor<f32>) -> tensor<f32>
        "tosa.yield"(%3) : (tensor<f32>) -> ()
      }) : (tensor<i1>, tensor<f32>) -> tensor<f32>
      "tosa.yield"(%2) : (tensor<f32>) -> ()
    }, {
    ^bb0(%e: tensor<i1>, %b: tensor<f32>):
      "tosa.yield"(%b) : (tensor<f32>) -> ()
    }) : (tensor<i1>, tensor<i1>, tensor<f32>) -> tensor<f32>
    "tosa.yield"(%1) : (tensor<f32>) -> ()
  }, {
  ^bb0(%d: tensor<i1>, %a: tensor<f32>):
    %1 = tosa.floor %a : (tensor<f32>) -> tensor<f32>
    "tosa.yield"(%1) : (tensor<f32>) -> ()
  }) : (tensor<i1>, tensor<i1>, tensor<f32>) -> tensor<f32>
  %4 = "tosa.while_loop"(%0) ({
  ^bb0(%v: tensor<f32>):
    %5 = tosa.greater %v, %v : (tensor<f32>, tensor<f32>) -> tensor<i1>
    "tosa.yield"(%5) : (tensor<i1>) -> ()
  }, {
  ^bb0(%v: tensor<f32>):
    %5 = tosa.sin %v : (tensor<f32>) -> tensor<f32>
    "tosa.yield"(%5) : (tensor<f32>) -> ()
  }) : (tensor<f32>) -> tensor<f32>
  return %4 : tensor<f32>
}
