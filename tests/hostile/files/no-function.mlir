// An empty module.
// where: 
// hint: 
module {}
