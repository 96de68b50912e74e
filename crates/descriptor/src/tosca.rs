//! What the TOSCA formats share: filters of nodes, inputs and units.
