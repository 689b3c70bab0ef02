"""What a tile costs: synthesis of TensorDash and its dense baseline through one flow."""
