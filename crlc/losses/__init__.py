"""The losses of the paper: pure functions of tensors. No device, batch size or mask is stored here."""
