"""Teams that share GPUs: Ray and its operator, pod groups, and queues with quotas, each as a small stand-in.

They decide what real controllers decide and write the objects that these would write. They refuse to be complete: what
no gang's fate depends on is left out.
"""
