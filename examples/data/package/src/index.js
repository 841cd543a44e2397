// TODO: greet in other languages
function greet(name) { return "Hello, " + name + "!" }

module.exports = { greet }
