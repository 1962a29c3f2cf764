// Ids that do not depend on where the checkout lies: the build is the same, byte for byte, everywhere.
module.exports = { optimization: { moduleIds: 'natural', chunkIds: 'natural' } };
