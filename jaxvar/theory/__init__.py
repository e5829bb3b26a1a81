"""The paper's statements confronted with data (``audit``), and how small the radius may be (``calibration``)."""
