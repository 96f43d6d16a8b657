// A module of nothing.
// where: 
// hint: 
module {}
